use core::marker::PhantomData;
use core::ops::Deref;

use crate::extent::Extent;
use crate::index::{Index1, Index2};

/// Lanes of a warp.
pub(crate) const WARP: usize = 32;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::OneD {}
    impl Sealed for super::TwoD {}
}

/// The dimensions in which blocks, and the threads in them, are counted.
pub trait Dimensions: sealed::Sealed + Sized + 'static {
    /// The index of a thread in the whole launch.
    type Index<'k>;
    /// A position in the whole launch, inside its extent or not.
    type Position;

    /// The number of dimensions.
    #[doc(hidden)]
    const AXES: usize;

    #[doc(hidden)]
    fn position(at: [u64; 2]) -> Self::Position;

    /// # Safety
    /// The calling thread runs at `at` of a launch of these dimensions and this extent.
    #[doc(hidden)]
    unsafe fn index<'k>(at: [u64; 2], extent: Extent) -> Option<Self::Index<'k>>;
}

/// One dimension.
#[derive(Debug)]
pub enum OneD {}

/// Two dimensions, x running fastest.
#[derive(Debug)]
pub enum TwoD {}

impl Dimensions for OneD {
    type Index<'k> = Index1<'k>;
    type Position = usize;
    const AXES: usize = 1;

    #[inline(always)]
    fn position(at: [u64; 2]) -> usize {
        at[0] as usize
    }

    #[inline(always)]
    unsafe fn index<'k>(at: [u64; 2], extent: Extent) -> Option<Index1<'k>> {
        // SAFETY: INDEX-1 and INDEX-2: the caller is the thread that runs at `at`, and `at` was
        // compared with the extent.
        (at[0] < extent.x).then(|| unsafe { Index1::new(at[0]) })
    }
}

impl Dimensions for TwoD {
    type Index<'k> = Index2<'k>;
    type Position = (usize, usize);
    const AXES: usize = 2;

    #[inline(always)]
    fn position(at: [u64; 2]) -> (usize, usize) {
        (at[0] as usize, at[1] as usize)
    }

    #[inline(always)]
    unsafe fn index<'k>(at: [u64; 2], extent: Extent) -> Option<Index2<'k>> {
        let (width, height) = extent.plane();
        let inside = at[0] < width as u64 && at[1] < height as u64;
        // SAFETY: INDEX-1 and INDEX-2: the caller is the thread that runs at `at`, and `at` was
        // compared with the extent.
        inside.then(|| unsafe { Index2::new(at[0] as u32, at[1] as u32, width) })
    }
}

/// Makes a type invariant in `'k`, and neither `Send` nor `Sync`.
pub(super) type Brand<'k, D> = PhantomData<(fn(&'k ()) -> &'k (), *const (), D)>;

/// One thread of a block, where no shared memory is in reach.
///
/// Only the closures of a phase get one, by reference. It is not `Clone`, so it never reaches
/// block-level code.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// The place of each thread: in its block, in its warp, and in the launch.
/// #[kernel(block = (8, 8))]
/// fn places(mut block: Block2, output: PerThread<[u32; 4]>) {
///     let place = block.map(|lane| {
///         assert_eq!(lane.index(), lane.y() * 8 + lane.x());
///         let (column, row) = lane.position();
///         [lane.warp() as u32, lane.lane() as u32, column as u32, row as u32]
///     });
///     block.threads(|thread| {
///         // None for threads outside of the grid, which blocks fill up.
///         if let Some(index) = thread.index_in_launch() {
///             output.set(index, place.get(thread));
///         }
///     });
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut output = compute.alloc_zeroed::<[u32; 4]>(10 * 9)?;
/// places(&compute, cuda_rt::Grid2::covering(10, 9), &mut output)?;
/// let output = compute.copy_to_vec(&output)?;
/// assert_eq!(output[5 * 10 + 3], [1, 11, 3, 5]); // x = 3, y = 5 of the first block
/// assert_eq!(output[8 * 10 + 9], [0, 1, 9, 8]); // x = 1, y = 0 of the last block
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct Lane<'k, D: Dimensions = OneD> {
    pub(super) local: [u32; 2],
    pub(super) size: [u32; 2],
    pub(super) block: [u32; 2],
    pub(super) extent: Extent,
    pub(super) _brand: Brand<'k, D>,
}

/// One thread of a block, inside a phase that ends in a barrier. Shared memory opens with it.
#[derive(Debug)]
pub struct Thread<'k, D: Dimensions = OneD> {
    pub(super) lane: Lane<'k, D>,
}

impl<'k, D: Dimensions> Deref for Thread<'k, D> {
    type Target = Lane<'k, D>;

    #[inline(always)]
    fn deref(&self) -> &Lane<'k, D> {
        &self.lane
    }
}

impl<'k, D: Dimensions> Lane<'k, D> {
    /// The thread's row-major position in the block, below the block's size.
    #[inline(always)]
    pub fn index(&self) -> usize {
        (self.local[1] * self.size[0] + self.local[0]) as usize
    }

    /// The thread's position along x in the block.
    #[inline(always)]
    pub fn x(&self) -> usize {
        self.local[0] as usize
    }

    /// The thread's position along y in the block.
    #[inline(always)]
    pub fn y(&self) -> usize {
        self.local[1] as usize
    }

    /// The thread's position in its warp, below 32.
    #[inline(always)]
    pub fn lane(&self) -> usize {
        self.index() % WARP
    }

    /// The warp's position in the block: warps are 32 threads whose indices follow each other.
    #[inline(always)]
    pub fn warp(&self) -> usize {
        self.index() / WARP
    }

    /// The thread's position in the launch, for reading: a number, or (x, y). Threads beyond the
    /// extent have a position too.
    #[inline(always)]
    pub fn position(&self) -> D::Position {
        D::position(self.global())
    }

    /// The thread's index in the launch, for writing; `None` in threads beyond the extent.
    #[inline(always)]
    pub fn index_in_launch(&self) -> Option<D::Index<'k>> {
        // SAFETY: INDEX-1: a lane is made for the thread that runs at `global`, and never leaves
        // it.
        unsafe { D::index(self.global(), self.extent) }
    }

    #[inline(always)]
    fn global(&self) -> [u64; 2] {
        // No sum wraps: a block's number lies below 2^31, and a block has at most 2^10 threads.
        [0, 1].map(|axis| self.block[axis] as u64 * self.size[axis] as u64 + self.local[axis] as u64)
    }
}
