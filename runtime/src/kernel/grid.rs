//! Grids: the number of threads of a launch, and the size of its blocks.

use super::Extent;
use crate::error::{GridError, Result};
use cuda_rt_driver::LaunchShape;

/// The most blocks of a grid, (x, y, z), on every device of compute capability 3.0 and later (CUDA
/// C++ Programming Guide, "Technical Specifications per Compute Capability").
const MAX_BLOCKS: [u64; 3] = [(1 << 31) - 1, 65535, 65535];
/// The most threads of a block along each axis (same table).
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// The most threads of a block in all (same table).
const MAX_THREADS: u32 = 1024;

/// How many threads a grid has, (x, y, z).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads<const AXES: usize> {
    /// So many threads.
    Covering([usize; AXES]),
    /// All threads of so many blocks, whose size is known at the launch.
    Blocks([usize; AXES]),
}

impl<const AXES: usize> Threads<AXES> {
    fn in_space(self) -> Threads<3> {
        match self {
            Self::Covering(threads) => Threads::Covering(in_space(threads, 1)),
            Self::Blocks(blocks) => Threads::Blocks(in_space(blocks, 1)),
        }
    }
}

impl Threads<3> {
    /// The threads of the launch along each axis.
    fn along(self, block: [u32; 3]) -> Result<[usize; 3], GridError> {
        match self {
            Self::Covering(threads) => Ok(threads),
            Self::Blocks(blocks) => {
                let mut threads = [0; 3];
                for axis in 0..3 {
                    threads[axis] =
                        blocks[axis]
                            .checked_mul(block[axis] as usize)
                            .ok_or(GridError::Blocks {
                                axis: ['x', 'y', 'z'][axis],
                                blocks: blocks[axis] as u64,
                                limit: MAX_BLOCKS[axis],
                            })?;
                }
                Ok(threads)
            }
        }
    }
}

/// The value along each of three axes, from the values along the first ones.
#[inline(always)]
fn in_space<T: Copy, const AXES: usize>(along: [T; AXES], rest: T) -> [T; 3] {
    let mut all = [rest; 3];
    all[..AXES].copy_from_slice(&along);
    all
}

/// The blocks that cover `threads`. A division takes long, and most blocks have a power of two of
/// threads along an axis.
#[inline(always)]
fn blocks_along(threads: u64, block: u32) -> u64 {
    if block.is_power_of_two() {
        let rest = threads & u64::from(block - 1);
        (threads >> block.trailing_zeros()) + u64::from(rest != 0)
    } else {
        threads.div_ceil(u64::from(block))
    }
}

/// `#[kernel]` computes the size from constants. The driver refuses a size that is too large.
#[inline(always)]
fn shared(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The shape of the usual launch: a line of threads, in blocks of a power of two. Always inlined:
/// the compiler then knows most of the numbers.
#[inline(always)]
fn usual_line(threads: Threads<1>, block: [u32; 3], shared_bytes: usize) -> Option<LaunchShape> {
    let (Threads::Covering([threads]), [side, 1, 1]) = (threads, block) else {
        return None;
    };
    if !side.is_power_of_two() || side > MAX_THREADS {
        return None;
    }
    let blocks = blocks_along(threads as u64, side);
    // Within the limit, the threads are few enough as well.
    (blocks <= MAX_BLOCKS[0]).then_some(LaunchShape {
        grid: [blocks as u32, 1, 1],
        block,
        shared_bytes: shared(shared_bytes),
        extent: Extent {
            x: threads as u64,
            y: 1,
            z: 1,
        },
    })
}

#[cold]
fn shape(threads: Threads<3>, block: [u32; 3], shared_bytes: usize) -> Result<LaunchShape, GridError> {
    let fits = block
        .iter()
        .zip(MAX_BLOCK)
        .all(|(side, limit)| (1..=limit).contains(side));
    // The sides are within their limits, so the product is below 2^32.
    if !fits || block.iter().product::<u32>() > MAX_THREADS {
        return Err(GridError::Block(block));
    }
    let extent = threads.along(block)?.map(|side| side as u64);
    let in_all = extent
        .iter()
        .try_fold(1u64, |product, side| product.checked_mul(*side));
    if in_all.is_none_or(|threads| threads > 1 << 63) {
        return Err(GridError::Threads(extent));
    }
    let mut grid = [1u32; 3];
    for axis in 0..3 {
        let blocks = blocks_along(extent[axis], block[axis]);
        let limit = MAX_BLOCKS[axis];
        grid[axis] = u32::try_from(blocks)
            .ok()
            .filter(|blocks| u64::from(*blocks) <= limit)
            .ok_or(GridError::Blocks {
                axis: ['x', 'y', 'z'][axis],
                blocks,
                limit,
            })?;
    }
    Ok(LaunchShape {
        grid,
        block,
        shared_bytes: shared(shared_bytes),
        extent: Extent {
            x: extent[0],
            y: extent[1],
            z: extent[2],
        },
    })
}

macro_rules! grids {
    ($($(#[$doc:meta])* $name:ident: $axes:literal $(, $usual:ident)?;)*) => { $(
        $(#[$doc])*
        ///
        /// The last blocks may have threads outside the extent. These threads do not enter the
        /// kernel.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            threads: Threads<$axes>,
            block: [u32; $axes],
        }

        impl $name {
            #[doc(hidden)]
            #[inline(always)]
            pub fn __shape(&self, block: Option<[u32; 3]>, shared_bytes: usize) -> Result<LaunchShape, GridError> {
                let block = block.unwrap_or(in_space(self.block, 1));
                $(if let Some(shape) = $usual(self.threads, block, shared_bytes) {
                    return Ok(shape);
                })?
                shape(self.threads.in_space(), block, shared_bytes)
            }
        }
    )* };
}

grids! {
    /// A launch of threads in a line, by default in blocks of 256.
    Grid1: 1, usual_line;
    /// A launch of threads in a rectangle, (x, y), by default in blocks of 32×8.
    ///
    /// ```
    /// use cuda_rt::Grid2;
    ///
    /// let frame = Grid2::covering(1920, 1080); // a thread for each pixel
    /// let square = frame.block(16, 16); // the same threads, in other blocks
    /// let strided = Grid2::blocks(60, 34).block(16, 16); // whole blocks, for any image
    /// assert!(frame != square && square != strided);
    /// ```
    Grid2: 2;
    /// A launch of threads in a box, (x, y, z), by default in blocks of 32×4×2.
    ///
    /// ```
    /// use cuda_rt::Grid3;
    ///
    /// let volume = Grid3::covering(64, 64, 32); // a thread for each voxel
    /// let cubes = volume.block(8, 8, 8); // the same threads, in other blocks
    /// let strided = Grid3::blocks(4, 4, 4).block(8, 8, 8); // whole blocks, for any volume
    /// assert!(volume != cubes && cubes != strided);
    /// ```
    Grid3: 3;
}

impl Grid1 {
    /// One thread for each of `threads` elements.
    ///
    /// The grid alone decides how many elements are written: pass the output's length. With fewer
    /// threads, a kernel with a `PerThread` output leaves the other elements as they were, and the
    /// launch succeeds, as in CUDA. A kernel that returns its element is refused
    /// ([`GridError::Output`]).
    #[inline]
    pub fn covering(threads: usize) -> Self {
        Self {
            threads: Threads::Covering([threads]),
            block: [256],
        }
    }

    /// All threads of `blocks` blocks, for a kernel in which each thread takes many elements (a
    /// grid-stride loop). The size of a block is the kernel's own, or the size that
    /// [`block`](Self::block) sets, or 256.
    ///
    /// What the kernel writes must still be covered: a kernel that returns its element is refused
    /// ([`GridError::Output`]) if its output has more elements than the grid has threads.
    ///
    /// ```
    /// use cuda_rt::Grid1;
    ///
    /// // For a kernel without a block size of its own, these are the same launch.
    /// let strided = Grid1::blocks(512).block(128);
    /// let covering = Grid1::covering(512 * 128).block(128);
    /// # let _ = (strided, covering);
    /// ```
    #[inline]
    pub fn blocks(blocks: usize) -> Self {
        Self {
            threads: Threads::Blocks([blocks]),
            block: [256],
        }
    }

    /// The same launch in blocks of `threads` threads. A kernel with a block size of its own
    /// ignores this size.
    #[inline]
    pub fn block(self, threads: u32) -> Self {
        Self {
            block: [threads],
            ..self
        }
    }
}

impl Grid2 {
    /// One thread for each of `width` × `height` elements. Elements outside are not written: see
    /// [`Grid1::covering`].
    #[inline]
    pub fn covering(width: usize, height: usize) -> Self {
        Self {
            threads: Threads::Covering([width, height]),
            block: [32, 8],
        }
    }

    /// All threads of `x` × `y` blocks, as [`Grid1::blocks`] in two dimensions. The default block
    /// is 32×8.
    #[inline]
    pub fn blocks(x: usize, y: usize) -> Self {
        Self {
            threads: Threads::Blocks([x, y]),
            block: [32, 8],
        }
    }

    /// The same launch in blocks of `x` × `y` threads. A kernel with a block size of its own
    /// ignores this size.
    #[inline]
    pub fn block(self, x: u32, y: u32) -> Self {
        Self {
            block: [x, y],
            ..self
        }
    }
}

impl Grid3 {
    /// One thread for each of `x` × `y` × `z` elements. Elements outside are not written: see
    /// [`Grid1::covering`].
    #[inline]
    pub fn covering(x: usize, y: usize, z: usize) -> Self {
        Self {
            threads: Threads::Covering([x, y, z]),
            block: [32, 4, 2],
        }
    }

    /// All threads of `x` × `y` × `z` blocks, as [`Grid1::blocks`] in three dimensions. The
    /// default block is 32×4×2.
    #[inline]
    pub fn blocks(x: usize, y: usize, z: usize) -> Self {
        Self {
            threads: Threads::Blocks([x, y, z]),
            block: [32, 4, 2],
        }
    }

    /// The same launch in blocks of `x` × `y` × `z` threads. A kernel with a block size of its
    /// own ignores this size.
    #[inline]
    pub fn block(self, x: u32, y: u32, z: u32) -> Self {
        Self {
            block: [x, y, z],
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_covered_with_a_part_block_at_its_end() {
        let shape = Grid1::covering(1000).__shape(None, 0).unwrap();
        assert_eq!(
            (shape.grid, shape.block, shape.extent.x),
            ([4, 1, 1], [256, 1, 1], 1000)
        );
    }

    #[test]
    fn blocks_are_whole_and_of_the_kernels_size() {
        for (grid, own, block) in [
            (Grid1::blocks(512), None, 256),
            (Grid1::blocks(512).block(128), None, 128),
            (Grid1::blocks(512).block(128), Some([64, 1, 1]), 64),
        ] {
            let shape = grid.__shape(own, 0).unwrap();
            assert_eq!(
                (shape.grid, shape.block, shape.extent.x),
                ([512, 1, 1], [block, 1, 1], 512 * u64::from(block))
            );
        }
        let plane = Grid2::blocks(3, 5).__shape(None, 0).unwrap();
        assert_eq!((plane.grid, plane.extent.x, plane.extent.y), ([3, 5, 1], 96, 40));
        let solid = Grid3::blocks(2, 3, 4).__shape(None, 0).unwrap();
        assert_eq!(
            (solid.grid, solid.extent.x, solid.extent.y, solid.extent.z),
            ([2, 3, 4], 64, 12, 8)
        );
        assert!(Grid1::blocks(0).__shape(None, 0).unwrap().is_empty());
        for blocks in [1 << 31, usize::MAX / 128, usize::MAX] {
            let error = Grid1::blocks(blocks).__shape(None, 0).unwrap_err();
            assert!(
                matches!(error, GridError::Blocks { axis: 'x', .. } | GridError::Threads(_)),
                "{error}"
            );
        }
        let error = Grid2::blocks(1, 65536).__shape(None, 0).unwrap_err();
        assert!(error.to_string().contains("along y"), "{error}");
    }

    #[test]
    fn no_threads_is_an_empty_launch() {
        assert!(Grid2::covering(0, 7).__shape(None, 0).unwrap().is_empty());
    }

    #[test]
    fn impossible_blocks_and_grids_are_refused() {
        for block in [
            [0, 1, 1],
            [1025, 1, 1],
            [32, 33, 1],
            [1, 1, 65],
            [u32::MAX, u32::MAX, 2],
        ] {
            let error = Grid3::covering(8, 8, 8).__shape(Some(block), 0).unwrap_err();
            assert!(matches!(error, GridError::Block(b) if b == block), "{error}");
        }
        let error = Grid1::covering(usize::MAX).__shape(None, 0).unwrap_err();
        assert!(matches!(error, GridError::Threads(_)), "{error}");
        let error = Grid1::covering(1 << 40).__shape(None, 0).unwrap_err();
        assert!(error.to_string().contains("along x"), "{error}");
        let error = Grid2::covering(1, 65536 * 8).__shape(None, 0).unwrap_err();
        assert!(error.to_string().contains("along y"), "{error}");
    }
}
