//! A product of matrices through tiles in shared memory, after "Shared Memory" in the CUDA C++
//! Programming Guide.

use device_std::Private;
use device_std::prelude::*;

/// Elements of a tile's side, and threads of a block along x and y.
const SIDE: usize = 16;

/// Returns the element of `left · right` at the thread's column (x) and row (y): `left` has
/// `height` rows of `depth` elements, and `right` `depth` rows of `width`, row-major. The products
/// of an element are added from the first to the last, each rounded once. The product may be memory
/// that nothing wrote before (`alloc_uninit`).
///
/// The grid covers (width, height) threads, which is `Grid2::covering(width, height)`. Traps if a
/// matrix is shorter than its sides say.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid2;
/// use device_kernels::matmul;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let (height, width, depth) = (2, 2, 3);
/// let left = compute.alloc_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let right = compute.alloc_from_slice(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0])?;
/// let output = compute.alloc_uninit(4)?;
/// let grid = Grid2::covering(2, 2);
/// let product = matmul(&compute, grid, &left, &right, height, width, depth, output)?;
/// assert_eq!(compute.copy_to_vec(&product)?, [4.0, 5.0, 10.0, 11.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = (16, 16))]
pub fn matmul(
    mut block: Block2,
    left_tile: BlockUninit<f32, 256>,
    right_tile: BlockUninit<f32, 256>,
    left: &[f32],
    right: &[f32],
    height: u32,
    width: u32,
    depth: u32,
) -> Private<f32> {
    let (height, width, depth) = (height as usize, width as usize, depth as usize);
    let (column, row) = (block.x() * SIDE, block.y() * SIDE);
    let mut sum = block.map(|_| 0.0);
    let mut left_tile = left_tile.init(&mut block, |_, _| 0.0);
    let mut right_tile = right_tile.init(&mut block, |_, _| 0.0);
    let mut first = 0;
    while first < depth {
        // Outside the matrices the tiles have zeros, which add nothing.
        left_tile.write(&mut block, |_, at| {
            let (row, k) = (row + at / SIDE, first + at % SIDE);
            if row < height && k < depth {
                left[row * depth + k]
            } else {
                0.0
            }
        });
        right_tile.write(&mut block, |_, at| {
            let (k, column) = (first + at / SIDE, column + at % SIDE);
            if k < depth && column < width {
                right[k * width + column]
            } else {
                0.0
            }
        });
        let (left_tile, right_tile) = (left_tile.view(), right_tile.view());
        block.threads_with(&mut sum, |thread, sum| {
            let (left, right) = (left_tile.slice(thread), right_tile.slice(thread));
            for k in 0..SIDE {
                let (left, right) = (left[thread.y() * SIDE + k], right[k * SIDE + thread.x()]);
                *sum = left.mul_add(right, *sum);
            }
        });
        first += SIDE;
    }
    sum
}
