//! [`ForeignGrid`]: the grid and the blocks of a launch of a foreign kernel.

use crate::error::GridError;
use crate::kernel::Grid3;
use cuda_rt_driver::LaunchShape;

/// The blocks of a launch of a foreign kernel, the threads of each block, and the dynamic shared
/// memory of each block. All threads of all blocks enter the kernel.
///
/// ```
/// use cuda_rt::interop::ForeignGrid;
///
/// let line = ForeignGrid::covering([1000, 1, 1], [256, 1, 1]); // at least 1000 threads
/// assert_eq!(line, ForeignGrid::new([4, 1, 1], [256, 1, 1]));
/// let tiled = ForeignGrid::covering([1920, 1080, 1], [32, 8, 1]).with_shared_bytes(32 * 8 * 4);
/// assert_eq!((tiled.blocks, tiled.shared_bytes), ([60, 135, 1], 1024));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForeignGrid {
    /// Blocks of the grid, (x, y, z). If one number is 0, nothing is launched.
    pub blocks: [u32; 3],
    /// Threads of a block, (x, y, z).
    pub threads: [u32; 3],
    /// Dynamic shared memory of a block, in bytes (`extern __shared__`).
    pub shared_bytes: u32,
}

impl ForeignGrid {
    /// So many `blocks` of so many `threads`, each (x, y, z), without dynamic shared memory.
    pub const fn new(blocks: [u32; 3], threads: [u32; 3]) -> Self {
        Self {
            blocks,
            threads,
            shared_bytes: 0,
        }
    }

    /// The fewest blocks of so many threads that cover `extent` threads, (x, y, z). The kernel
    /// itself has to compare its index with the extent: the last blocks may have more threads. A
    /// grid that no device can launch is an error of the launch.
    pub const fn covering(extent: [usize; 3], threads: [u32; 3]) -> Self {
        let mut blocks = [0; 3];
        let mut axis = 0;
        while axis < 3 {
            let side = if threads[axis] == 0 {
                1
            } else {
                threads[axis] as usize
            };
            let covered = extent[axis].div_ceil(side);
            blocks[axis] = if covered > u32::MAX as usize {
                u32::MAX
            } else {
                covered as u32
            };
            axis += 1;
        }
        Self::new(blocks, threads)
    }

    /// The same grid with `bytes` bytes of dynamic shared memory for each block.
    pub const fn with_shared_bytes(self, bytes: u32) -> Self {
        Self {
            shared_bytes: bytes,
            ..self
        }
    }

    /// The shape for a driver. A grid or a block that no device can launch is refused.
    pub(super) fn shape(&self) -> Result<LaunchShape, GridError> {
        let ([x, y, z], [i, j, k]) = (self.blocks.map(|side| side as usize), self.threads);
        Grid3::blocks(x, y, z)
            .block(i, j, k)
            .__shape(None, self.shared_bytes as usize)
    }
}
