//! Atomic read-modify-writes, of relaxed order: in device memory through [`Atomic`], and in shared
//! memory through [`SharedAtomic`](crate::SharedAtomic).

mod element;
mod place;
mod token;

use core::marker::PhantomData;

pub use element::{AtomicElement, AtomicInteger};
pub(crate) use place::InBlock;
use place::Place;
pub use place::{BlockScope, DeviceScope, Scope, SystemScope, fence};
pub use token::ThreadToken;

/// An output that every thread may change by relaxed atomic read-modify-writes (`atom.relaxed.gpu`,
/// wrapping on overflow).
///
/// Only relaxed ones: rustc emits `fetch_add` with any other order as a relaxed instruction without
/// a fence (rust-lang/rust#136480), so a stronger name would promise what the hardware does not do.
/// Relaxed operations order nothing but the element itself; [`fence`] orders those on different
/// elements, and a launch orders all that the launch before it did.
///
/// Every operation takes the calling thread's index or [`Lane`](crate::Lane): what it returns
/// differs by thread, and must not reach the block-level code that decides about barriers.
///
/// A thread that waits for another one's write may wait for ever: nothing promises that both run at
/// once, and on the simulated device blocks run one after the other.
///
/// # Invariants
/// 1. `ptr` is valid for reads and writes of `len` elements, aligned to their size, and only this
///    launch uses them.
/// 2. All access is atomic, at a scope that includes every thread that has access.
#[derive(Debug)]
pub struct Atomic<'a, T> {
    ptr: *mut T,
    len: usize,
    _buffer: PhantomData<&'a mut [T]>,
}

/// An [`Atomic`] output at another scope.
#[derive(Debug)]
pub struct AtomicAt<'a, T, S> {
    ptr: *mut T,
    len: usize,
    _buffer: PhantomData<(&'a mut [T], S)>,
}

// SAFETY: all access is atomic (invariant 2).
unsafe impl<T: AtomicElement> Sync for Atomic<'_, T> {}
// SAFETY: as above.
unsafe impl<T: AtomicElement, S: Scope> Sync for AtomicAt<'_, T, S> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: what it returns needs a thread's token, and so stays inside a closure.
unsafe impl<T: AtomicElement> crate::PhaseSafe for Atomic<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: as above.
unsafe impl<T: AtomicElement, S: Scope> crate::PhaseSafe for AtomicAt<'_, T, S> {}

#[inline(always)]
pub(crate) fn element<T>(ptr: *mut T, len: usize, at: usize) -> *mut T {
    assert!(at < len, "an atomic element lies beyond the end");
    ptr.wrapping_add(at)
}

/// The operations on `self.ptr` and `self.len`, by a thread that proves itself with `$token`.
macro_rules! operations {
    ([$($generics:tt)*] $type:ty, $place:ty, [$($token_generics:tt)*] $token:ty) => {
        impl<$($generics)*> $type {
            /// Adds to element `at`, and returns what was there.
            ///
            /// # Panics
            /// Beyond the end.
            #[inline(always)]
            pub fn fetch_add<$($token_generics)*>(&self, _thread: &$token, at: usize, value: T) -> T {
                // SAFETY: in bounds, and all access is atomic.
                unsafe { T::fetch_add::<$place>($crate::atomic::element(self.ptr, self.len, at), value) }
            }

            /// Puts `value` into element `at`, and returns what was there.
            ///
            /// # Panics
            /// Beyond the end.
            #[inline(always)]
            pub fn swap<$($token_generics)*>(&self, _thread: &$token, at: usize, value: T) -> T {
                // SAFETY: in bounds, and all access is atomic.
                unsafe { T::swap::<$place>($crate::atomic::element(self.ptr, self.len, at), value) }
            }

            /// What is in element `at` now.
            ///
            /// # Panics
            /// Beyond the end.
            #[inline(always)]
            pub fn load<$($token_generics)*>(&self, _thread: &$token, at: usize) -> T {
                // SAFETY: in bounds, and all access is atomic.
                unsafe { T::load::<$place>($crate::atomic::element(self.ptr, self.len, at)) }
            }

            /// Puts `value` into element `at`.
            ///
            /// # Panics
            /// Beyond the end.
            #[inline(always)]
            pub fn store<$($token_generics)*>(&self, _thread: &$token, at: usize, value: T) {
                // SAFETY: in bounds, and all access is atomic.
                unsafe { T::store::<$place>($crate::atomic::element(self.ptr, self.len, at), value) }
            }
        }

        impl<$($generics)*> $type
        where
            T: $crate::AtomicInteger,
        {
            $crate::atomic::operations! { @integer $place, [$($token_generics)*] $token,
                /// Raises element `at` to at least `value`, and returns what was there.
                fetch_max
                /// Lowers element `at` to at most `value`, and returns what was there.
                fetch_min
                /// Keeps the bits of element `at` that `value` has too, and returns what was there.
                fetch_and
                /// Sets the bits of element `at` that `value` has, and returns what was there.
                fetch_or
                /// Flips the bits of element `at` that `value` has, and returns what was there.
                fetch_xor
            }

            /// Puts `new` into element `at` if `current` is there. `Ok` with what was there if so,
            /// `Err` with it if not.
            ///
            /// # Errors
            /// What was there instead of `current`. It never fails otherwise.
            ///
            /// # Panics
            /// Beyond the end.
            #[inline(always)]
            pub fn compare_exchange<$($token_generics)*>(
                &self,
                _thread: &$token,
                at: usize,
                current: T,
                new: T,
            ) -> Result<T, T>
            where
                T: PartialEq,
            {
                let element = $crate::atomic::element(self.ptr, self.len, at);
                // SAFETY: in bounds, and all access is atomic.
                let old = unsafe { T::compare_exchange::<$place>(element, current, new) };
                if old == current { Ok(old) } else { Err(old) }
            }
        }
    };
    (@integer $place:ty, $token_generics:tt $token:ty, $($(#[$doc:meta])* $name:ident)*) => { $(
        $crate::atomic::operations! { @one $place, $token_generics $token, $(#[$doc])* $name }
    )* };
    (@one $place:ty, [$($token_generics:tt)*] $token:ty, $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// Beyond the end.
        #[inline(always)]
        pub fn $name<$($token_generics)*>(&self, _thread: &$token, at: usize, value: T) -> T {
            // SAFETY: in bounds, and all access is atomic.
            unsafe { T::$name::<$place>($crate::atomic::element(self.ptr, self.len, at), value) }
        }
    };
}
pub(crate) use operations;

operations!([T: AtomicElement] Atomic<'_, T>, DeviceScope, [K: ThreadToken] K);
operations!([T: AtomicElement, S: Scope] AtomicAt<'_, T, S>, S, [K: ThreadToken] K);

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

    /// The same elements at the scope of the system (`atom.relaxed.sys`): for memory that the host
    /// or another GPU has mapped.
    #[inline(always)]
    pub fn system(&self) -> AtomicAt<'_, T, SystemScope> {
        self.at_scope()
    }

    /// The same elements at the scope of the block (`atom.relaxed.cta`).
    ///
    /// # Safety
    /// During the launch no other block uses the elements that this one uses through what is
    /// returned: operations of two blocks at this scope are not atomic to each other.
    #[inline(always)]
    pub unsafe fn block(&self) -> AtomicAt<'_, T, BlockScope> {
        self.at_scope()
    }

    #[inline(always)]
    fn at_scope<S: Place>(&self) -> AtomicAt<'_, T, S> {
        AtomicAt {
            ptr: self.ptr,
            len: self.len,
            _buffer: PhantomData,
        }
    }
}
