use core::marker::PhantomData;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::block::{Dimensions, Lane, Thread};
use crate::element::Element;
use crate::index::{Index1, Index2, Index3};

/// An output that every thread may change by relaxed atomic read-modify-writes (`atom.relaxed`, wrapping on overflow).
///
/// Only relaxed ones: rustc emits `fetch_add` with any other order as a relaxed instruction without a fence
/// (rust-lang/rust#136480), so a stronger name would promise what the hardware does not do. Relaxed operations order nothing but the
/// element itself; use one launch for counting and the next for reading.
///
/// Every operation takes the calling thread's index or [`Lane`]: what it returns differs by thread, and must not reach
/// the block-level code that decides about barriers.
///
/// # Invariants
/// 1. `ptr` is valid for reads and writes of `len` elements, aligned to their size, and only this launch uses them.
/// 2. All access is atomic.
#[derive(Debug)]
pub struct Atomic<'a, T> {
    ptr: *mut T,
    len: usize,
    _buffer: PhantomData<&'a mut [T]>,
}

// SAFETY: all access is atomic (invariant 2).
unsafe impl<T: AtomicElement> Sync for Atomic<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: what it returns needs a thread's token, and so stays inside a closure.
unsafe impl<T: AtomicElement> crate::PhaseSafe for Atomic<'_, T> {}

mod sealed {
    pub trait Token {}
    pub trait AtomicElement {}
}

/// Proof that the caller is one thread of a launch: an index, a [`Lane`] or a [`Thread`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not one thread of a launch",
    label = "not a thread: what an atomic returns differs by thread, and must not decide about barriers",
    note = "pass the index, or what the closure of a phase is given: `block.threads(|thread| counts.fetch_add(thread, at, 1))`"
)]
pub trait ThreadToken: sealed::Token {}

macro_rules! tokens {
    ($($token:ty),*) => { $(
        impl sealed::Token for $token {}
        impl ThreadToken for $token {}
    )* };
}
tokens!(Index1<'_>, Index2<'_>, Index3<'_>);

impl<D: Dimensions> sealed::Token for Lane<'_, D> {}
impl<D: Dimensions> ThreadToken for Lane<'_, D> {}
impl<D: Dimensions> sealed::Token for Thread<'_, D> {}
impl<D: Dimensions> ThreadToken for Thread<'_, D> {}

/// An element that the hardware changes atomically: `u32`, `i32`, `u64`, and `f32` (additions only).
pub trait AtomicElement: Element + sealed::AtomicElement {
    /// # Safety
    /// `at` is valid and aligned, and all concurrent access to it is atomic.
    #[doc(hidden)]
    unsafe fn fetch_add(at: *mut Self, value: Self) -> Self;
}

/// An [`AtomicElement`] that is an integer.
pub trait AtomicInteger: AtomicElement {
    /// # Safety
    /// As [`AtomicElement::fetch_add`].
    #[doc(hidden)]
    unsafe fn fetch_max(at: *mut Self, value: Self) -> Self;
    /// # Safety
    /// As [`AtomicElement::fetch_add`].
    #[doc(hidden)]
    unsafe fn fetch_min(at: *mut Self, value: Self) -> Self;
}

macro_rules! integers {
    ($($integer:ident = $atomic:ident;)*) => { $(
        impl sealed::AtomicElement for $integer {}
        impl AtomicElement for $integer {
            #[inline(always)]
            unsafe fn fetch_add(at: *mut Self, value: Self) -> Self {
                // SAFETY: passed on to the caller.
                unsafe { $atomic::from_ptr(at) }.fetch_add(value, Ordering::Relaxed)
            }
        }
        impl AtomicInteger for $integer {
            #[inline(always)]
            unsafe fn fetch_max(at: *mut Self, value: Self) -> Self {
                // SAFETY: passed on to the caller.
                unsafe { $atomic::from_ptr(at) }.fetch_max(value, Ordering::Relaxed)
            }
            #[inline(always)]
            unsafe fn fetch_min(at: *mut Self, value: Self) -> Self {
                // SAFETY: passed on to the caller.
                unsafe { $atomic::from_ptr(at) }.fetch_min(value, Ordering::Relaxed)
            }
        }
    )* };
}

integers! {
    u32 = AtomicU32;
    i32 = AtomicI32;
    u64 = AtomicU64;
}

impl sealed::AtomicElement for f32 {}
impl AtomicElement for f32 {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    unsafe fn fetch_add(at: *mut Self, value: Self) -> Self {
        let old: f32;
        // SAFETY: passed on to the caller; one instruction, which touches the element only.
        unsafe {
            core::arch::asm!("atom.relaxed.gpu.add.f32 {}, [{}], {};", out(reg32) old, in(reg64) at, in(reg32) value);
        }
        old
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    unsafe fn fetch_add(at: *mut Self, value: Self) -> Self {
        // SAFETY: `f32` has the size and alignment of `u32`; the rest is passed on to the caller.
        let bits = unsafe { AtomicU32::from_ptr(at.cast()) };
        let mut old = bits.load(Ordering::Relaxed);
        loop {
            let new = (f32::from_bits(old) + value).to_bits();
            match bits.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(old) => return f32::from_bits(old),
                Err(seen) => old = seen,
            }
        }
    }
}

#[inline(always)]
fn element<T>(ptr: *mut T, len: usize, at: usize) -> *mut T {
    assert!(at < len, "an atomic element lies beyond the end");
    ptr.wrapping_add(at)
}

/// # Safety
/// `ptr` is valid and aligned for `len` elements, and all concurrent access to them is atomic.
#[inline(always)]
pub(crate) unsafe fn fetch_add_at<T: AtomicElement>(ptr: *mut T, len: usize, at: usize, value: T) -> T {
    // SAFETY: in bounds; the rest is passed on to the caller.
    unsafe { T::fetch_add(element(ptr, len, at), value) }
}

/// # Safety
/// As [`fetch_add_at`].
#[inline(always)]
pub(crate) unsafe fn fetch_max_at<T: AtomicInteger>(ptr: *mut T, len: usize, at: usize, value: T) -> T {
    // SAFETY: in bounds; the rest is passed on to the caller.
    unsafe { T::fetch_max(element(ptr, len, at), value) }
}

/// # Safety
/// As [`fetch_add_at`].
#[inline(always)]
pub(crate) unsafe fn fetch_min_at<T: AtomicInteger>(ptr: *mut T, len: usize, at: usize, value: T) -> T {
    // SAFETY: in bounds; the rest is passed on to the caller.
    unsafe { T::fetch_min(element(ptr, len, at), value) }
}

impl<T: AtomicElement> Atomic<'_, T> {
    /// # Safety
    /// Invariant 1.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut T, len: usize) -> Self {
        Self {
            ptr,
            len,
            _buffer: PhantomData,
        }
    }

    /// Elements of the whole output.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the output has no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds to element `at`, and returns what was there.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline(always)]
    pub fn fetch_add<K: ThreadToken>(&self, _thread: &K, at: usize, value: T) -> T {
        // SAFETY: invariants 1 and 2.
        unsafe { fetch_add_at(self.ptr, self.len, at, value) }
    }

    /// Raises element `at` to at least `value`, and returns what was there.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline(always)]
    pub fn fetch_max<K: ThreadToken>(&self, _thread: &K, at: usize, value: T) -> T
    where
        T: AtomicInteger,
    {
        // SAFETY: invariants 1 and 2.
        unsafe { fetch_max_at(self.ptr, self.len, at, value) }
    }

    /// Lowers element `at` to at most `value`, and returns what was there.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline(always)]
    pub fn fetch_min<K: ThreadToken>(&self, _thread: &K, at: usize, value: T) -> T
    where
        T: AtomicInteger,
    {
        // SAFETY: invariants 1 and 2.
        unsafe { fetch_min_at(self.ptr, self.len, at, value) }
    }
}
