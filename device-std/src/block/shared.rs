use core::marker::PhantomData;

use super::opening;
use super::phase_safe::PhaseSafe;
use super::phases::Block;
use super::thread::{Dimensions, Thread, WARP};
use crate::atomic::{AtomicElement, InBlock, operations};
use crate::element::Element;
use crate::rt::MAX_SHARED_BYTES;

/// `N` elements of a block's shared memory, not yet written.
///
/// # Invariants, of this type and of those made from it
/// 1. `ptr` is valid and aligned for `N` elements, which this value alone opens during the block's
///    run.
/// 2. Threads open it only in a phase that ends in a barrier ([`Thread`] is the key).
/// 3. Block-level code marks each opening, before threads can use it (`opening.rs`).
#[derive(Debug)]
pub struct BlockUninit<'k, T, const N: usize> {
    ptr: *mut T,
    _memory: PhantomData<&'k mut [T; N]>,
}

/// `N` elements of a block's shared memory. In one phase they are either read by all threads, or
/// changed by one thread each.
#[derive(Debug)]
pub struct BlockShared<'k, T, const N: usize> {
    ptr: *mut T,
    _memory: PhantomData<&'k mut [T; N]>,
}

/// Shared memory of which each thread may read and write one element, its own.
#[derive(Debug)]
pub struct EachMut<'a, T> {
    ptr: *mut T,
    len: usize,
    _memory: PhantomData<&'a mut [T]>,
}

/// Shared memory that every thread may read.
#[derive(Debug)]
pub struct View<'a, T> {
    ptr: *const T,
    len: usize,
    _memory: PhantomData<&'a [T]>,
}

/// Shared memory that every thread may change by relaxed atomic read-modify-writes.
#[derive(Debug)]
pub struct SharedAtomic<'a, T> {
    ptr: *mut T,
    len: usize,
    _memory: PhantomData<&'a mut [T]>,
}

// SAFETY: through `&EachMut` each thread reaches its own element only.
unsafe impl<T: Element> Sync for EachMut<'_, T> {}
// SAFETY: through `&View` nothing is written.
unsafe impl<T: Element> Sync for View<'_, T> {}
// SAFETY: all access through `&SharedAtomic` is atomic.
unsafe impl<T: AtomicElement> Sync for SharedAtomic<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: it opens with a `Thread` only.
unsafe impl<T: Element> PhaseSafe for EachMut<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: it opens with a `Thread` only.
unsafe impl<T: Element> PhaseSafe for View<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: it opens with a `Thread` only.
unsafe impl<T: AtomicElement> PhaseSafe for SharedAtomic<'_, T> {}

/// The element at `at`.
///
/// # Safety
/// `at` lies inside the allocation of `ptr`.
#[inline(always)]
unsafe fn element<T>(ptr: *mut T, at: usize) -> *mut T {
    // SAFETY: passed on to the caller.
    unsafe { ptr.add(at) }
}

impl<'k, T: Element, const N: usize> BlockUninit<'k, T, N> {
    /// Whether a block's shared memory can hold it, and aligns it.
    ///
    /// The product is checked: one that wraps is small, and `N` elements would be within the bounds
    /// of an array of 0 bytes.
    pub(crate) const FITS: bool = match size_of::<T>().checked_mul(N) {
        Some(bytes) => bytes <= MAX_SHARED_BYTES && align_of::<T>() <= 16,
        None => false,
    };

    /// Size, rounded up so that what follows is aligned too. With the limit a sum over a kernel's
    /// arguments cannot wrap.
    pub(crate) const BYTES: usize = {
        assert!(
            Self::FITS,
            "a block has 48 KiB of shared memory, aligned to 16 bytes"
        );
        (size_of::<T>() * N).next_multiple_of(16)
    };

    /// # Safety
    /// `ptr` is aligned to 16 bytes and valid for `BYTES` bytes of the block's shared memory, which
    /// nothing else uses.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut u8) -> Self {
        const { Self::BYTES };
        Self {
            ptr: ptr.cast(),
            _memory: PhantomData,
        }
    }

    /// To write by a lane of each warp, and to read behind a barrier.
    #[inline(always)]
    pub(super) fn open_as_scratch(&mut self) {
        opening::scratch(self.ptr, N);
    }

    /// # Safety
    /// No other thread uses element `at` before the next barrier.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline(always)]
    pub(super) unsafe fn write(&mut self, at: usize, value: T) {
        assert!(at < N, "write beyond the end of shared memory");
        // SAFETY: at < N.
        let slot = unsafe { element(self.ptr, at) };
        // SAFETY: passed on to the caller.
        unsafe { slot.write(value) };
    }

    /// # Safety
    /// Element `at` was written before a barrier, and nothing writes it before the next.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline(always)]
    pub(super) unsafe fn read(&self, at: usize) -> T {
        assert!(at < N, "read beyond the end of shared memory");
        // SAFETY: at < N.
        let slot = unsafe { element(self.ptr, at) };
        // SAFETY: passed on to the caller.
        unsafe { slot.read() }
    }

    /// Element i gets `f(thread, i)`, from thread i modulo the block's size. Ends in a barrier.
    #[inline(always)]
    pub fn init<'b, D: Dimensions, F>(self, block: &mut Block<'b, D>, f: F) -> BlockShared<'k, T, N>
    where
        F: Fn(&Thread<'b, D>, usize) -> T + PhaseSafe,
    {
        let mut shared = BlockShared {
            ptr: self.ptr,
            _memory: PhantomData,
        };
        shared.write(block, f);
        shared
    }

    /// Element w gets `f` of the first lane of warp w; `f` runs in those lanes only. Ends in a
    /// barrier.
    ///
    /// # Panics
    /// If the block is not made of `N` whole warps.
    #[inline(always)]
    pub fn init_per_warp<'b, D: Dimensions, F>(self, block: &mut Block<'b, D>, f: F) -> BlockShared<'k, T, N>
    where
        F: Fn(&Thread<'b, D>) -> T + PhaseSafe,
    {
        assert!(
            block.size() == N * WARP,
            "one element for each warp of 32 threads"
        );
        let ptr = self.ptr;
        opening::per_warp(ptr, N);
        block.run(|thread| {
            if thread.index() % WARP == 0 {
                let value = f(thread);
                // SAFETY: index / 32 < N, as the block has N warps.
                let slot = unsafe { element(ptr, thread.index() / WARP) };
                // SAFETY: one thread for each warp comes here, and nothing reads before the
                // barrier.
                unsafe { slot.write(value) };
            }
        });
        block.barrier();
        BlockShared {
            ptr,
            _memory: PhantomData,
        }
    }
}

impl<T: Element, const N: usize> BlockShared<'_, T, N> {
    /// Element i becomes `f(thread, i)`, from thread i modulo the block's size. Ends in a barrier.
    #[inline(always)]
    pub fn write<'b, D: Dimensions, F>(&mut self, block: &mut Block<'b, D>, f: F)
    where
        F: Fn(&Thread<'b, D>, usize) -> T + PhaseSafe,
    {
        let (ptr, stride) = (self.ptr, block.size());
        opening::write(ptr, N);
        block.run(|thread| {
            let mut at = thread.index();
            while at < N {
                let value = f(thread, at);
                // SAFETY: at < N.
                let slot = unsafe { element(ptr, at) };
                // SAFETY: thread indices are distinct and below `stride`, so no other thread has
                // this element; `&mut self` keeps readers away until the barrier.
                unsafe { slot.write(value) };
                at += stride;
            }
        });
        block.barrier();
    }

    /// For a phase in which each thread may change the element at its own index.
    #[inline(always)]
    pub fn each_mut(&mut self) -> EachMut<'_, T> {
        opening::each_mut(self.ptr, N);
        EachMut {
            ptr: self.ptr,
            len: N,
            _memory: PhantomData,
        }
    }

    /// For phases in which every thread may read every element.
    #[inline(always)]
    pub fn view(&self) -> View<'_, T> {
        opening::view(self.ptr, N);
        View {
            ptr: self.ptr,
            len: N,
            _memory: PhantomData,
        }
    }

    /// For a phase in which every thread may change every element atomically.
    #[inline(always)]
    pub fn atomic(&mut self) -> SharedAtomic<'_, T>
    where
        T: AtomicElement,
    {
        opening::atomic(self.ptr, N);
        SharedAtomic {
            ptr: self.ptr,
            len: N,
            _memory: PhantomData,
        }
    }

    /// The first `mid` elements to change, the rest to read.
    ///
    /// # Panics
    /// If `mid` lies beyond the end.
    #[inline(always)]
    pub fn split_at_mut(&mut self, mid: usize) -> (EachMut<'_, T>, View<'_, T>) {
        assert!(mid <= N, "the middle lies beyond the end of shared memory");
        opening::split(self.ptr, mid);
        // SAFETY: mid ≤ N, one past the end at most.
        let rest = unsafe { element(self.ptr, mid) };
        (
            EachMut {
                ptr: self.ptr,
                len: mid,
                _memory: PhantomData,
            },
            View {
                ptr: rest,
                len: N - mid,
                _memory: PhantomData,
            },
        )
    }

    #[inline(always)]
    fn read(&self, at: usize) -> T {
        opening::broadcast(self.ptr, N);
        assert!(at < N, "read beyond the end of shared memory");
        // SAFETY: at < N.
        let slot = unsafe { element(self.ptr, at) };
        // SAFETY: initialised before a barrier, and nothing writes while `self` is shared.
        unsafe { *slot }
    }
}

impl<D: Dimensions> Block<'_, D> {
    /// Reads element `at` of shared memory at block level.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline(always)]
    pub fn broadcast<T: Element, const N: usize>(&mut self, shared: &BlockShared<'_, T, N>, at: usize) -> T {
        let value = shared.read(at);
        // A later phase may write what a slow thread is still to read here.
        self.barrier();
        value
    }
}

impl<T: Element> EachMut<'_, T> {
    /// The element at the thread's index; `None` beyond the end.
    #[inline(always)]
    pub fn get<D: Dimensions>(&self, thread: &Thread<'_, D>) -> Option<T> {
        if thread.index() >= self.len {
            return None;
        }
        // SAFETY: below the length.
        let slot = unsafe { element(self.ptr, thread.index()) };
        // SAFETY: this thread's own.
        Some(unsafe { *slot })
    }

    /// Writes the element at the thread's index; nothing beyond the end.
    #[inline(always)]
    pub fn set<D: Dimensions>(&self, thread: &Thread<'_, D>, value: T) {
        if thread.index() >= self.len {
            return;
        }
        // SAFETY: below the length.
        let slot = unsafe { element(self.ptr, thread.index()) };
        // SAFETY: this thread's own.
        unsafe { *slot = value };
    }
}

impl<'a, T: Element> View<'a, T> {
    /// All elements, for as long as the phase lasts.
    #[inline(always)]
    pub fn slice<'t, D: Dimensions>(&self, _thread: &'t Thread<'_, D>) -> &'t [T]
    where
        'a: 't,
    {
        // SAFETY: initialised before a barrier; nothing writes while `'a` is borrowed, and `'t`
        // ends before this phase's barrier.
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }
}

operations!([T: AtomicElement] SharedAtomic<'_, T>, InBlock, [D: Dimensions] Thread<'_, D>);
