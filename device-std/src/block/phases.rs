use core::marker::PhantomData;

use super::phase_safe::PhaseSafe;
use super::private::Private;
use super::thread::{Brand, Dimensions, Lane, OneD, Thread, TwoD};
#[cfg(target_arch = "nvptx64")]
use crate::device::registers;
use crate::extent::Extent;

/// One block of a launch, seen as a whole.
///
/// A kernel that takes a block names its number of threads: `#[kernel(block = 256)]`. Block-level
/// code may branch only on values that all threads share.
///
/// ```
/// # use device_std::prelude::*;
/// fn any_negative(mut block: Block, input: &[i32], mut found: PerBlock<u32>) {
///     let is_negative = |at: usize| input.get(at).is_some_and(|value| *value < 0);
///     let negative = block.any(|thread| is_negative(thread.position()));
///     found.set(&block, u32::from(negative));
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (threads diverge at a barrier).
///
/// # Invariants
/// - BLOCK-1. Each block of the launch has one value. The fields are the launch's own: it has
///   `size` threads in each block.
/// - BLOCK-2. Every thread of the block runs the block-level code with equal values, so every
///   thread meets every barrier.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// use device_std::{Max, Sum};
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// Sums of a block, of a warp and up to a lane; votes; values of other lanes.
/// #[kernel(block = 64)]
/// fn survey(
///     mut block: Block,
///     mut scratch: BlockUninit<u32, 4>,
///     input: &[u32],
///     output: PerThread<[u32; 4]>,
///     mut of_block: PerBlock<[u32; 4]>,
/// ) {
///     // A phase without a barrier: each thread computes a value of its own.
///     let value = block.map(|lane| input[lane.position()]);
///
///     // Phases in which the block's threads work together; all get the same result.
///     let sum = block.reduce::<Sum, _, 4>(&mut scratch, &value);
///     let (before, total) = block.exclusive_scan::<Sum, _, 4>(&mut scratch, &value);
///     let (up_to, _) = block.inclusive_scan::<Sum, _, 4>(&mut scratch, &value);
///     let odd = block.count(|thread| value.get(thread) % 2 == 1);
///     let small = block.all(|thread| value.get(thread) < 100) && !block.any(|_thread| false);
///
///     // Between the lanes of a warp.
///     let of_warp = block.warp_reduce::<Max, _>(&value);
///     let next = block.shuffle_down(&value, 1);
///     let first = block.shuffle_from(&value, 0);
///     let mut result = block.map(|lane| [before.get(lane), up_to.get(lane), 0, 0]);
///     block.update(&mut result, |lane, own| {
///         own[2] = of_warp.get(lane);
///         own[3] = next.get(lane) + first.get(lane);
///     });
///     block.threads(|thread| {
///         if let Some(index) = thread.index_in_launch() {
///             output.set(index, result.get(thread));
///         }
///     });
///     assert_eq!(sum, total);
///     let words = [sum, odd as u32, u32::from(small), block.x() as u32];
///     of_block.set(&block, words);
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let input = compute.alloc_from_slice(&(0..64).collect::<Vec<u32>>())?;
/// let mut output = compute.alloc_zeroed::<[u32; 4]>(64)?;
/// let mut of_block = compute.alloc_zeroed::<[u32; 4]>(1)?;
/// survey(&compute, cuda_rt::Grid1::covering(64), &input, &mut output, &mut of_block)?;
/// assert_eq!(compute.copy_to_vec(&of_block)?, [[2016, 32, 1, 0]]);
/// assert_eq!(compute.copy_to_vec(&output)?[40], [780, 820, 63, 41 + 32]);
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct Block<'k, D: Dimensions = OneD> {
    at: [u32; 2],
    size: [u32; 2],
    blocks: [u32; 2],
    extent: Extent,
    _brand: Brand<'k, D>,
}

/// A block of threads in two dimensions.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// The size of each block, and of the launch in blocks.
/// #[kernel(block = (16, 4))]
/// fn sizes(block: Block2, mut output: PerBlock<[u32; 4]>) {
///     assert_eq!(block.size(), block.size_x() * block.size_y());
///     assert!(block.x() < block.blocks_x() && block.y() < block.blocks_y());
///     let size = [block.size_x() as u32, block.size_y() as u32];
///     let blocks = [block.blocks_x() as u32, block.blocks_y() as u32];
///     output.set(&block, [size[0], size[1], blocks[0], blocks[1]]);
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut output = compute.alloc_zeroed::<[u32; 4]>(2 * 3)?;
/// sizes(&compute, cuda_rt::Grid2::covering(32, 12), &mut output)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [[16, 4, 2, 3]; 6]);
/// # Ok(())
/// # })?
/// # }
/// ```
pub type Block2<'k> = Block<'k, TwoD>;

impl<'k, D: Dimensions> Block<'k, D> {
    /// # Safety
    /// The arguments are the launch's, the launch has one `Block` for each of its blocks (BLOCK-1),
    /// and every thread of the block runs the kernel.
    #[inline(always)]
    pub(crate) unsafe fn new(at: [u32; 2], size: [u32; 2], blocks: [u32; 2], extent: Extent) -> Self {
        Self {
            at,
            size,
            blocks,
            extent,
            _brand: PhantomData,
        }
    }

    /// The block of the calling thread.
    ///
    /// # Safety
    /// The launch has `size` threads in each block and this extent, the kernel calls this once, and
    /// every thread of the block runs the kernel.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) unsafe fn current(size: [u32; 2], extent: Extent) -> Self {
        let at = [registers::block_x(), registers::block_y()];
        let blocks = [registers::grid_x(), registers::grid_y()];
        // SAFETY: the caller gives the launch's size and extent, and makes one value (BLOCK-1);
        // `at` and `blocks` come from the registers.
        unsafe { Self::new(at, size, blocks, extent) }
    }

    /// The block's position along x, in blocks.
    #[inline(always)]
    pub fn x(&self) -> usize {
        self.at[0] as usize
    }

    /// The block's position along y, in blocks.
    #[inline(always)]
    pub fn y(&self) -> usize {
        self.at[1] as usize
    }

    /// The block's row-major position in the grid, in blocks.
    #[inline(always)]
    pub fn position(&self) -> usize {
        (self.at[1] as u64 * self.blocks[0] as u64 + self.at[0] as u64) as usize
    }

    /// Blocks of the launch along x.
    #[inline(always)]
    pub fn blocks_x(&self) -> usize {
        self.blocks[0] as usize
    }

    /// Blocks of the launch along y.
    #[inline(always)]
    pub fn blocks_y(&self) -> usize {
        self.blocks[1] as usize
    }

    /// Blocks of the launch.
    #[inline(always)]
    pub(super) fn count_of_blocks(&self) -> u64 {
        self.blocks[0] as u64 * self.blocks[1] as u64
    }

    /// Threads of a block.
    #[inline(always)]
    pub fn size(&self) -> usize {
        (self.size[0] * self.size[1]) as usize
    }

    /// Where the block lies in the grid, its threads, and the launch's extent.
    #[inline(always)]
    pub(crate) fn numbers(&self) -> ([u32; 2], [u32; 2], Extent) {
        (self.at, self.size, self.extent)
    }

    /// Threads of a block along x.
    #[inline(always)]
    pub fn size_x(&self) -> usize {
        self.size[0] as usize
    }

    /// Threads of a block along y.
    #[inline(always)]
    pub fn size_y(&self) -> usize {
        self.size[1] as usize
    }

    /// Runs `f` in every thread of the block, then waits for all of them (`__syncthreads`).
    ///
    /// `f` returns nothing. A phase in which each thread computes a value is
    /// [`map_shared`](Self::map_shared), or [`map`](Self::map) if it reads no shared memory.
    #[inline(always)]
    pub fn threads<F: Fn(&Thread<'k, D>) + PhaseSafe>(&mut self, f: F) {
        self.run(|thread| f(thread));
        self.barrier();
    }

    /// Runs `f` in every thread with the thread's own value, then waits for all threads of the
    /// block (`__syncthreads`).
    #[inline(always)]
    pub fn threads_with<T: Copy + 'static, F>(&mut self, private: &mut Private<T>, f: F)
    where
        F: Fn(&Thread<'k, D>, &mut T) + PhaseSafe,
    {
        self.run(|thread| f(thread, private.slot(thread.index())));
        self.barrier();
    }

    /// Makes a value in each thread, by an `f` that may read shared memory. Ends in a barrier
    /// (`__syncthreads`).
    #[inline(always)]
    pub fn map_shared<T: Copy + 'static, F: Fn(&Thread<'k, D>) -> T + PhaseSafe>(
        &mut self,
        f: F,
    ) -> Private<T> {
        let private = self.collect(f);
        self.barrier();
        private
    }

    /// Makes a value in each thread. No barrier follows, because `f` cannot reach shared memory.
    #[inline(always)]
    pub fn map<T: Copy + 'static, F: Fn(&Lane<'k, D>) -> T + PhaseSafe>(&mut self, f: F) -> Private<T> {
        let private = self.collect(|thread| f(thread));
        self.end_of_phase();
        private
    }

    /// Changes each thread's own value. No barrier follows, because `f` cannot reach shared memory.
    #[inline(always)]
    pub fn update<T: Copy + 'static, F>(&mut self, private: &mut Private<T>, f: F)
    where
        F: Fn(&Lane<'k, D>, &mut T) + PhaseSafe,
    {
        self.run(|thread| f(thread, private.slot(thread.index())));
        self.end_of_phase();
    }

    /// Runs `f` once in every thread.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(super) fn run(&self, mut f: impl FnMut(&Thread<'k, D>)) {
        f(&self.this_thread());
    }

    /// Runs `f` once in every thread.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    pub(super) fn run(&self, mut f: impl FnMut(&Thread<'k, D>)) {
        for y in 0..self.size[1] {
            for x in 0..self.size[0] {
                f(&self.thread([x, y]));
            }
        }
    }

    #[inline(always)]
    pub(super) fn collect<T: Copy + 'static>(&self, f: impl Fn(&Thread<'k, D>) -> T) -> Private<T> {
        #[cfg(target_arch = "nvptx64")]
        return Private::new(f(&self.this_thread()));
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let mut values = Vec::with_capacity(self.size());
            self.run(|thread| values.push(f(thread)));
            Private::new(values)
        }
    }

    /// A barrier, which every thread of the block meets (BLOCK-2).
    #[inline(always)]
    pub(super) fn barrier(&self) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: BLOCK-2: only block-level code calls this, so every thread of the block executes
        // it.
        unsafe {
            registers::barrier();
        }
    }

    /// Ends a phase that has no barrier. Without it, LLVM could give the following block-level code
    /// another value in some threads (BLOCK-2).
    #[inline(always)]
    pub(super) fn end_of_phase(&self) {
        #[cfg(target_arch = "nvptx64")]
        registers::end_of_phase();
    }

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn this_thread(&self) -> Thread<'k, D> {
        let local = [registers::thread_x(), registers::thread_y()];
        // SAFETY: BLOCK-1: the launch has `size` threads in each block, so the thread's x lies
        // below.
        unsafe { core::hint::assert_unchecked(local[0] < self.size[0]) };
        // SAFETY: BLOCK-1: the launch has `size` threads in each block, so the thread's y lies
        // below.
        unsafe { core::hint::assert_unchecked(local[1] < self.size[1]) };
        self.thread(local)
    }

    #[inline(always)]
    fn thread(&self, local: [u32; 2]) -> Thread<'k, D> {
        let lane = Lane {
            local,
            size: self.size,
            block: self.at,
            extent: self.extent,
            _brand: PhantomData,
        };
        Thread { lane }
    }

    #[inline(always)]
    pub(crate) fn is_first_thread(&self) -> bool {
        #[cfg(target_arch = "nvptx64")]
        return registers::thread_x() == 0 && registers::thread_y() == 0;
        #[cfg(not(target_arch = "nvptx64"))]
        true
    }
}
