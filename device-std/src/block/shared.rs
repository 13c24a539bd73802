mod strided;

use core::marker::PhantomData;

use super::opening;
use super::phase_safe::PhaseSafe;
use super::phases::Block;
use super::thread::{Dimensions, Thread, WARP};
use crate::atomic::{AtomicElement, InBlock, operations};
use crate::chunk;
use crate::element::Element;
use crate::host_thread::HostThread;
use crate::rt::MAX_SHARED_BYTES;

/// `N` elements of a block's shared memory, not yet written.
///
/// On the host, no argument stands for it.
///
/// A GPU limits the sum of a kernel's `BlockUninit`s:
///
/// | compute capability | bytes of a block |
/// |---|--:|
/// | 8.6, 8.9, 12.0 | 101,376 (99 KiB) |
/// | 8.0, 8.7 | 166,912 (163 KiB) |
/// | 9.0, 10.0 | 232,448 (227 KiB) |
///
/// A sum above 227 KiB does not compile. The build of a kernel warns if the GPUs of its
/// architecture have less. If the device has less, the first launch returns an error that names the
/// limit; `SimConfig::compute_capability` shows this error without such a GPU. A multiprocessor
/// holds few blocks with much shared memory at a time: `Device::max_active_blocks` says how many.
///
/// ```
/// # use device_std::prelude::*;
/// fn reverse(
///     mut block: Block,
///     tile: BlockUninit<f32, 64>,
///     input: &[f32],
///     output: PerThread<f32>,
/// ) {
///     let value = |at| input.get(at).copied().unwrap_or(0.0);
///     let tile = tile.init(&mut block, |thread, _| value(thread.position()));
///     let view = tile.view();
///     block.threads(|thread| {
///         if let Some(index) = thread.index_in_launch() {
///             output.set(index, view.slice(thread)[63 - thread.index()]);
///         }
///     });
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (a thread reads shared memory that another thread writes, or that
/// nobody wrote).
///
/// # Invariants
/// They hold for this type, and for each type below that is made from it.
///
/// - SHARED-MEMORY-1. `ptr` is valid for `N` elements (or `len`), and a multiple of 16 bytes plus
///   whole elements. During the block's run, only this value opens them.
/// - SHARED-MEMORY-2. Threads open the elements only in a phase that ends in a barrier: each access
///   takes a [`Thread`].
/// - SHARED-MEMORY-3. Block-level code marks each opening before threads can use it (`opening.rs`).
#[derive(Debug)]
pub struct BlockUninit<'k, T, const N: usize> {
    ptr: *mut T,
    _memory: PhantomData<&'k mut [T; N]>,
}

/// `N` elements of a block's shared memory. In one phase, either all threads read all elements, or
/// each thread changes its own element, or all threads change elements atomically.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// Reverses the elements of each block, and adds the block's first one.
/// #[kernel(block = 32)]
/// fn reverse(
///     mut block: Block,
///     tile: BlockUninit<u32, 32>,
///     input: &[u32],
///     output: PerThread<u32>,
/// ) {
///     // `init` gives each element to one thread, and ends with a barrier.
///     let mut tile = tile.init(&mut block, |thread, _at| input[thread.position()]);
///     let first = block.broadcast(&tile, 0);
///     let each = tile.each_mut(); // each thread's own element, in place
///     block.threads(|thread| {
///         if let Some(own) = each.get(thread) {
///             each.set(thread, own + first);
///         }
///     });
///     let view = tile.view(); // all elements, for reading
///     block.threads(|thread| {
///         let other = view.slice(thread)[31 - thread.index()];
///         if let Some(index) = thread.index_in_launch() {
///             output.set(index, other);
///         }
///     });
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let input = compute.alloc_from_slice(&(10..74).collect::<Vec<u32>>())?;
/// let mut output = compute.alloc_zeroed::<u32>(64)?;
/// reverse(&compute, cuda_rt::Grid1::covering(64), &input, &mut output)?;
/// let output = compute.copy_to_vec(&output)?;
/// assert_eq!((output[0], output[31], output[32]), (41 + 10, 10 + 10, 73 + 42));
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct BlockShared<'k, T, const N: usize> {
    ptr: *mut T,
    _memory: PhantomData<&'k mut [T; N]>,
}

/// Shared memory in which each thread may read and write its own element.
#[derive(Debug)]
pub struct EachMut<'a, T> {
    ptr: *mut T,
    len: usize,
    host_thread: HostThread,
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
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// Counts the values of each block in shared memory, and adds the counts to the launch's.
/// #[kernel(block = 64)]
/// fn histogram(
///     mut block: Block,
///     shared: BlockUninit<u32, 5>,
///     input: &[u32],
///     counts: Atomic<u32>,
/// ) {
///     let mut shared = shared.init(&mut block, |_thread, _at| 0);
///     let bins = shared.atomic();
///     block.threads(|thread| {
///         if let Some(&value) = input.get(thread.position()) {
///             bins.fetch_add(thread, value as usize % 4, 1);
///             bins.fetch_max(thread, 4, value); // of the block
///             assert!(bins.load(thread, 4) >= value);
///         }
///     });
///     let bins = shared.view();
///     block.threads(|thread| {
///         if let Some(count) = bins.slice(thread).get(thread.index()) {
///             counts.fetch_add(thread, thread.index(), *count);
///         }
///     });
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let input = compute.alloc_from_slice(&[1_u32; 100])?;
/// let mut counts = compute.alloc_zeroed::<u32>(5)?;
/// histogram(&compute, cuda_rt::Grid1::covering(100), &input, &mut counts)?;
/// assert_eq!(compute.copy_to_vec(&counts)?, [0, 100, 0, 0, 2]);
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct SharedAtomic<'a, T> {
    ptr: *mut T,
    len: usize,
    _memory: PhantomData<&'a mut [T]>,
}

// SAFETY: through `&EachMut`, a thread reaches only the element at its own index. On the host,
// another thread than the launch's reaches none (`HostThread`).
unsafe impl<T: Element> Sync for EachMut<'_, T> {}
// SAFETY: nothing is written through `&View`.
unsafe impl<T: Element> Sync for View<'_, T> {}
// SAFETY: all access through `&SharedAtomic` is atomic.
unsafe impl<T: AtomicElement> Sync for SharedAtomic<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: SHARED-MEMORY-2: it opens only with a `Thread`, which block-level code never has.
unsafe impl<T: Element> PhaseSafe for EachMut<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: SHARED-MEMORY-2: it opens only with a `Thread`, which block-level code never has.
unsafe impl<T: Element> PhaseSafe for View<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: SHARED-MEMORY-2: it opens only with a `Thread`, which block-level code never has.
unsafe impl<T: AtomicElement> PhaseSafe for SharedAtomic<'_, T> {}

/// The element at `at`.
///
/// # Safety
/// `at` lies inside the allocation of `ptr`.
#[inline(always)]
unsafe fn element<T>(ptr: *mut T, at: usize) -> *mut T {
    // SAFETY: the caller says that `at` lies inside the allocation.
    unsafe { ptr.add(at) }
}

/// Writes one element, by one store for each 16 bytes.
///
/// # Safety
/// `slot` is an element of shared memory, and this thread alone uses it before the next barrier.
#[inline(always)]
unsafe fn store<T: Element>(slot: *mut T, value: T) {
    // SAFETY: SHARED-MEMORY-1: the memory begins at a multiple of 16, and elements follow each
    // other; the widest piece, 16 bytes at most, divides the size of an element. The caller says
    // that only this thread uses it.
    unsafe { chunk::write_aligned(slot, [value]) };
}

impl<'k, T: Element, const N: usize> BlockUninit<'k, T, N> {
    /// Whether a block's shared memory can hold the elements, and is aligned for them.
    ///
    /// The multiplication is checked. A product that wraps is small: the array would have few
    /// bytes, and its bounds would still allow `N` elements.
    pub(crate) const FITS: bool = match size_of::<T>().checked_mul(N) {
        Some(bytes) => bytes <= MAX_SHARED_BYTES && align_of::<T>() <= 16,
        None => false,
    };

    /// The size in bytes, rounded up to 16, so that the next argument is aligned too. The limit
    /// keeps the sum over a kernel's arguments from wrapping.
    ///
    /// The layout of the element is computed here, as for all memory: it does not build for a type
    /// with padding.
    pub(crate) const BYTES: usize = {
        let _ = T::LAYOUT;
        assert!(
            Self::FITS,
            "a block has 227 KiB of shared memory at most, aligned to 16 bytes"
        );
        (size_of::<T>() * N).next_multiple_of(16)
    };

    /// # Safety
    /// `ptr` is aligned to 16 bytes and valid for `BYTES` bytes of the block's shared memory, which
    /// has no other user.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut u8) -> Self {
        const { Self::BYTES };
        Self {
            ptr: ptr.cast(),
            _memory: PhantomData,
        }
    }

    /// Opens the memory for a reduction: a lane of each warp writes, and after a barrier all
    /// threads read.
    #[inline(always)]
    pub(super) fn open_as_scratch(&mut self) {
        opening::scratch(self.ptr, N);
    }

    /// # Safety
    /// No other thread uses element `at` before the next barrier.
    ///
    /// # Panics
    /// If `at` lies beyond the end.
    #[inline(always)]
    pub(super) unsafe fn write(&mut self, at: usize, value: T) {
        assert!(at < N, "write beyond the end of shared memory");
        // SAFETY: at < N.
        let slot = unsafe { element(self.ptr, at) };
        // SAFETY: SHARED-MEMORY-1, and the caller says that no other thread uses the element before
        // the next barrier.
        unsafe { slot.write(value) };
    }

    /// # Safety
    /// Element `at` was written before a barrier, and nothing writes it before the next.
    ///
    /// # Panics
    /// If `at` lies beyond the end.
    #[inline(always)]
    pub(super) unsafe fn read(&self, at: usize) -> T {
        assert!(at < N, "read beyond the end of shared memory");
        // SAFETY: at < N.
        let slot = unsafe { element(self.ptr, at) };
        // SAFETY: SHARED-MEMORY-1, and the caller says that the element was written before a
        // barrier, and that nobody writes it before the next.
        unsafe { slot.read() }
    }

    /// Writes `f(thread, i)` into element i, in the thread whose index is i modulo the block's
    /// size. Ends in a barrier (`__syncthreads`).
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

    /// Writes `f(thread)` of the first lane of warp w into element w. `f` runs only in the first
    /// lane of each warp. Ends in a barrier (`__syncthreads`).
    ///
    /// # Panics
    /// If the block is not made of `N` whole warps.
    #[inline(always)]
    pub fn init_per_warp<'b, D: Dimensions, F>(self, block: &mut Block<'b, D>, f: F) -> BlockShared<'k, T, N>
    where
        F: Fn(&Thread<'b, D>) -> T + PhaseSafe,
    {
        assert!(
            N.checked_mul(WARP) == Some(block.size()),
            "one element for each warp of 32 threads"
        );
        let ptr = self.ptr;
        opening::per_warp(ptr, N);
        block.run(|thread| {
            if thread.index() % WARP == 0 {
                let value = f(thread);
                // SAFETY: the block has N warps: the product was checked. So index / 32 < N.
                let slot = unsafe { element(ptr, thread.index() / WARP) };
                // SAFETY: SHARED-MEMORY-1: one thread of each warp writes its warp's own element,
                // and nothing reads before the barrier.
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
    /// Writes `f(thread, i)` into element i, in the thread whose index is i modulo the block's
    /// size. Ends in a barrier (`__syncthreads`).
    #[inline(always)]
    pub fn write<'b, D: Dimensions, F>(&mut self, block: &mut Block<'b, D>, f: F)
    where
        F: Fn(&Thread<'b, D>, usize) -> T + PhaseSafe,
    {
        let (ptr, stride) = (self.ptr, block.size());
        opening::write(ptr, N);
        block.run(|thread| {
            // The number of rounds is the same in all threads, so that LLVM can write them out.
            for round in 0..N.div_ceil(stride) {
                let at = round * stride + thread.index();
                if !N.is_multiple_of(stride) && at >= N {
                    break;
                }
                let value = f(thread, at);
                // SAFETY: at < N: if the block's size divides N, because the index lies below it.
                let slot = unsafe { element(ptr, at) };
                // SAFETY: SHARED-MEMORY-1: thread indices are distinct and below `stride`, so no
                // other thread writes this element. `&mut self` excludes readers until the barrier.
                unsafe { store(slot, value) };
            }
        });
        block.barrier();
    }

    /// Opens the memory for a phase in which each thread may change the element at its own index.
    #[inline(always)]
    pub fn each_mut(&mut self) -> EachMut<'_, T> {
        opening::each_mut(self.ptr, N);
        EachMut {
            ptr: self.ptr,
            len: N,
            host_thread: HostThread::current(),
            _memory: PhantomData,
        }
    }

    /// Opens the memory for phases in which every thread may read every element.
    #[inline(always)]
    pub fn view(&self) -> View<'_, T> {
        opening::view(self.ptr, N);
        View {
            ptr: self.ptr,
            len: N,
            _memory: PhantomData,
        }
    }

    /// Opens the memory for a phase in which every thread may change every element atomically.
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

    /// Opens the first `mid` elements for changes by each thread, and the rest for reads.
    ///
    /// # Panics
    /// If `mid` lies beyond the end.
    ///
    /// ```standalone_crate
    /// use device_std::prelude::*;
    /// # device_std::kernel_module!(concat!(
    /// #     env!("CARGO_MANIFEST_DIR"),
    /// #     "/../cuda-rt/tests/conformance/kernels.ptx"
    /// # ));
    /// # cuda_rt::streams! { pub Compute; }
    ///
    /// /// The maximum of each block, by halves: each round compares two parts of one array.
    /// #[kernel(block = 64)]
    /// fn maxima(
    ///     mut block: Block,
    ///     warps: BlockUninit<u32, 2>,
    ///     tile: BlockUninit<u32, 64>,
    ///     input: &[u32],
    ///     mut output: PerBlock<[u32; 2]>,
    /// ) {
    ///     let firsts = warps.init_per_warp(&mut block, |thread| input[thread.position()]);
    ///     let second = block.broadcast(&firsts, 1); // the first value of the second warp
    ///     let mut tile = tile.init(&mut block, |_thread, _at| 0);
    ///     tile.write(&mut block, |thread, _at| input[thread.position()]);
    ///     let mut half = 32;
    ///     while half > 0 {
    ///         let (own, other) = tile.split_at_mut(half);
    ///         block.threads(|thread| {
    ///             if let (Some(left), true) = (own.get(thread), thread.index() < half) {
    ///                 own.set(thread, left.max(other.slice(thread)[thread.index()]));
    ///             }
    ///         });
    ///         half /= 2;
    ///     }
    ///     let max = block.broadcast(&tile, 0);
    ///     output.set(&block, [max, second]);
    /// }
    ///
    /// # fn main() -> cuda_rt::Result<()> {
    /// # cuda_rt::Device::simulated(Default::default(), |gpu| {
    /// # let compute = gpu.stream::<Compute<_>>()?;
    /// let input: Vec<u32> = (0..64).map(|at| at * 37 % 64).collect();
    /// let input = compute.alloc_from_slice(&input)?;
    /// let mut output = compute.alloc_zeroed::<[u32; 2]>(1)?;
    /// maxima(&compute, cuda_rt::Grid1::covering(64), &input, &mut output)?;
    /// assert_eq!(compute.copy_to_vec(&output)?, [[63, 32 * 37 % 64]]);
    /// # Ok(())
    /// # })?
    /// # }
    /// ```
    #[inline(always)]
    pub fn split_at_mut(&mut self, mid: usize) -> (EachMut<'_, T>, View<'_, T>) {
        assert!(mid <= N, "the middle lies beyond the end of shared memory");
        opening::split(self.ptr, mid);
        // SAFETY: mid ≤ N, so the result points at most one past the end.
        let rest = unsafe { element(self.ptr, mid) };
        (
            EachMut {
                ptr: self.ptr,
                len: mid,
                host_thread: HostThread::current(),
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
        // SAFETY: SHARED-MEMORY-1: the element was written before a barrier, and nobody writes
        // while `self` is borrowed as shared.
        unsafe { *slot }
    }
}

impl<D: Dimensions> Block<'_, D> {
    /// Reads element `at` of shared memory at block level. All threads get the same value. Ends in
    /// a barrier (`__syncthreads`).
    ///
    /// # Panics
    /// If `at` lies beyond the end.
    #[inline(always)]
    pub fn broadcast<T: Element, const N: usize>(&mut self, shared: &BlockShared<'_, T, N>, at: usize) -> T {
        let value = shared.read(at);
        // A later phase may write what a slow thread is still to read here.
        self.barrier();
        value
    }
}

impl<T: Element> EachMut<'_, T> {
    /// Reads the element at the thread's index; `None` beyond the end.
    #[inline(always)]
    pub fn get<D: Dimensions>(&self, thread: &Thread<'_, D>) -> Option<T> {
        self.host_thread.check();
        if thread.index() >= self.len {
            return None;
        }
        // SAFETY: the index lies below the length.
        let slot = unsafe { element(self.ptr, thread.index()) };
        // SAFETY: SHARED-MEMORY-1: thread indices are distinct, so only this thread uses the
        // element.
        Some(unsafe { *slot })
    }

    /// Writes the element at the thread's index. Beyond the end, it does nothing.
    #[inline(always)]
    pub fn set<D: Dimensions>(&self, thread: &Thread<'_, D>, value: T) {
        self.host_thread.check();
        if thread.index() >= self.len {
            return;
        }
        // SAFETY: the index lies below the length.
        let slot = unsafe { element(self.ptr, thread.index()) };
        // SAFETY: SHARED-MEMORY-1: thread indices are distinct, so only this thread uses the
        // element.
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
        // SAFETY: SHARED-MEMORY-1: the elements were written before a barrier. Nobody writes them
        // during the borrow `'a`, and `'t` ends before this phase's barrier (SHARED-MEMORY-2).
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }
}

operations!([T: AtomicElement] SharedAtomic<'_, T>, InBlock, [D: Dimensions] Thread<'_, D>);
