//! A matrix transpose through tiles, after "An Efficient Matrix Transpose in CUDA C/C++" (M.
//! Harris, NVIDIA, 2013), with the tile's columns permuted instead of padded to avoid bank
//! conflicts.

use device_std::prelude::*;

/// Elements of a tile's side, and threads of a block along x.
const SIDE: usize = 32;
/// Elements that one thread moves; a block has `SIDE / ROWS` threads along y.
const ROWS: usize = 4;

/// `output[x][y] = input[y][x]`: `input` has `height` rows of `width`, row-major, and `output`
/// `width` rows of `height`.
///
/// The grid covers (height, width / 4, rounded up) threads, which is `Grid2::covering(height,
/// width.div_ceil(4))`: each thread writes four rows of one column of the output. Traps if `input`
/// is shorter than the matrix.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid2;
/// use device_kernels::transpose;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let (width, height) = (3, 2);
/// let input = compute.alloc_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut output = compute.alloc_zeroed(6)?;
/// let grid = Grid2::covering(2, 3_usize.div_ceil(4));
/// transpose(&compute, grid, &input, &mut output, width, height)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = (32, 8))]
pub fn transpose(
    mut block: Block2,
    tile: BlockUninit<f32, 1024>,
    input: &[f32],
    output: PerThreadColumn<f32, 4>,
    width: u32,
    height: u32,
) {
    let (width, height) = (width as usize, height as usize);
    // The block writes the output's rows from `x` and columns from `y`, so it reads the input's
    // columns from `x` and rows from `y`.
    let (x, y) = (block.y() * SIDE, block.x() * SIDE);
    let tile = tile.init(&mut block, |_, at| {
        let (row, column) = (at / SIDE, swizzle(at % SIDE, at / SIDE));
        if y + row < height && x + column < width {
            input[(y + row) * width + x + column]
        } else {
            0.0
        }
    });
    let tile = tile.view();
    block.threads(|thread| {
        let Some(index) = thread.index_in_launch() else {
            return;
        };
        for k in 0..ROWS {
            let (row, column) = (thread.x(), thread.y() * ROWS + k);
            if x + column < width {
                output.set(index, k, tile.slice(thread)[row * SIDE + swizzle(column, row)]);
            }
        }
    });
}

/// The place of a column in a row of the tile. It differs by row, so that the elements of a column
/// lie in different banks. The function is its own inverse.
#[inline(always)]
fn swizzle(column: usize, row: usize) -> usize {
    (column ^ row) % SIDE
}
