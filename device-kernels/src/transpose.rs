//! A matrix transpose through tiles, after "An Efficient Matrix Transpose in CUDA C/C++" (M.
//! Harris, NVIDIA, 2013). Memory is read and written in chunks of four elements: each thread
//! transposes a square of 4 × 4 in registers, and only whole chunks go through shared memory. The
//! squares of a tile are dealt to the threads in an order that keeps chunks of one column in
//! different banks, so no padding is needed.

use device_std::prelude::*;
use device_std::{AlignedChunks, PhaseSafe, TilePlace};

/// Elements of a chunk, and of the side of a thread's square.
const CHUNK: usize = 4;
/// Elements of a tile's side; threads of a block along x.
const SIDE: usize = 64;
/// Squares along a tile's side.
const SQUARES: usize = SIDE / CHUNK;

/// `output[x][y] = input[y][x]`: `input` has `height` rows of `width`, row-major, and `output`
/// `width` rows of `height`.
///
/// The grid covers (height, width / 16, rounded up) threads, which is `Grid2::covering(height,
/// width.div_ceil(16))`: each thread writes sixteen elements of the output. Traps if `input` is
/// shorter than the matrix.
///
/// Elements are `u8`, `u16`, `u32`, `i32`, `f32`, `u64` or `f64`; [`transpose_wide`] has elements
/// of 16 bytes. If `width` and `height` are multiples of 4, memory is read and written in chunks,
/// but for the tiles at the edges.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid2;
/// use device_kernels::transpose;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let (width, height) = (3, 2);
/// let input = compute.alloc_from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut output = compute.alloc_zeroed(6)?;
/// let grid = Grid2::covering(2, 3_usize.div_ceil(16));
/// transpose(&compute, grid, &input, &mut output, width, height)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = (64, 4), instances = [u8, u16, u32, i32, f32, u64, f64])]
pub fn transpose<T: Element + PhaseSafe>(
    mut block: Block2,
    tile: BlockUninit<[T; 4], 1024>,
    input: &[T],
    output: PerThreadTile<T, 4, 4>,
    width: u32,
    height: u32,
) {
    let (width, height) = (width as usize, height as usize);
    assert!(
        input.len() >= width * height,
        "the input is shorter than the matrix"
    );
    // The block writes the output's rows from `x` and columns from `y`, so it reads the input's
    // columns from `x` and rows from `y`.
    let (x, y) = (block.y() * SIDE, block.x() * SIDE);
    let (before, chunks, _) = input.aligned_chunks::<CHUNK>();
    let is_whole = x + SIDE <= width && y + SIDE <= height;
    let is_aligned = width % CHUNK == 0 && before.is_empty();
    let matrix = Matrix {
        input,
        chunks,
        width,
        height,
    };
    let tile = tile.init_strided(&mut block, |thread| {
        let (square_x, square_y) = square(thread.index());
        let (x, y) = (x + square_x * CHUNK, y + square_y * CHUNK);
        let rows = if is_whole && is_aligned {
            core::array::from_fn(|row| matrix.chunk(x, y + row))
        } else {
            core::array::from_fn(|row| matrix.elements(x, y + row))
        };
        let columns: [[T; CHUNK]; CHUNK] =
            core::array::from_fn(|column| rows.map(|row: [T; CHUNK]| row[column]));
        columns
    });
    let tile = tile.view();
    block.threads(|thread| {
        let Some(index) = thread.index_in_launch() else {
            return;
        };
        // In the output, x counts the input's rows, and y its columns.
        let chunks = match output.place(index) {
            TilePlace::Row { x, y } => {
                let row = |k: usize| tile.read(thread, slot(y + k * CHUNK, x));
                [row(0), row(1), row(2), row(3)]
            }
            TilePlace::Column { x, y } => {
                let tile = tile.slice(thread);
                let element = |y: usize| tile[slot(y, x)][x % CHUNK];
                let column = |k: usize| core::array::from_fn(|q| element(y + k * CHUNK + q));
                [column(0), column(1), column(2), column(3)]
            }
        };
        output.set(index, chunks);
    });
}

/// Elements of a tile's side of [`transpose_wide`].
const WIDE_SIDE: usize = 32;

/// [`transpose`] for elements of 16 bytes: `[f32; 4]`, `[u32; 4]` or `[f64; 2]`.
///
/// The grid covers (height, width / 4, rounded up) threads, which is `Grid2::covering(height,
/// width.div_ceil(4))`: each thread writes four elements of the output. Traps if `input` is shorter
/// than the matrix.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid2;
/// use device_kernels::transpose_wide;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[[1.0_f64, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])?;
/// let mut output = compute.alloc_zeroed(4)?;
/// transpose_wide(&compute, Grid2::covering(2, 1), &input, &mut output, 2, 2)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [[1.0, 2.0], [5.0, 6.0], [3.0, 4.0], [7.0, 8.0]]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = (32, 8), instances = [[f32; 4], [u32; 4], [f64; 2]])]
pub fn transpose_wide<T: Element + PhaseSafe>(
    mut block: Block2,
    tile: BlockUninit<T, 1024>,
    input: &[T],
    output: PerThreadTile<T, 1, 4>,
    width: u32,
    height: u32,
) {
    let (width, height) = (width as usize, height as usize);
    assert!(
        input.len() >= width * height,
        "the input is shorter than the matrix"
    );
    // All elements are chunks, but for a slice whose address is not a multiple of 16.
    let (_, chunks, _) = input.aligned_chunks::<1>();
    let (x, y) = (block.y() * WIDE_SIDE, block.x() * WIDE_SIDE);
    let tile = tile.init_strided(&mut block, |thread| {
        core::array::from_fn::<T, 4, _>(|k| {
            let at = k * (WIDE_SIDE * WIDE_SIDE / 4) + thread.index();
            let row = at / WIDE_SIDE;
            let (x, y) = (x + (at ^ row) % WIDE_SIDE, y + row);
            if x < width && y < height {
                match chunks.get(y * width + x) {
                    Some([value]) => value,
                    None => input[y * width + x],
                }
            } else {
                T::zeroed()
            }
        })
    });
    let tile = tile.view();
    block.threads(|thread| {
        let Some(index) = thread.index_in_launch() else {
            return;
        };
        // A chunk of one element lies in a row and in a column.
        let (TilePlace::Row { x, y } | TilePlace::Column { x, y }) = output.place(index);
        let element = |k: usize| {
            let (row, column) = (x % WIDE_SIDE, (y + k) % WIDE_SIDE);
            [tile.read(thread, row * WIDE_SIDE + (column ^ row))]
        };
        output.set(index, [element(0), element(1), element(2), element(3)]);
    });
}

/// The input, as the tiles read it.
#[derive(Clone, Copy)]
struct Matrix<'a, T> {
    input: &'a [T],
    chunks: AlignedChunks<'a, T, CHUNK>,
    width: usize,
    height: usize,
}

impl<T: Element> Matrix<'_, T> {
    /// The elements of row `y` from column `x` on, if chunks are aligned, and x is a multiple of 4.
    #[inline(always)]
    fn chunk(&self, x: usize, y: usize) -> [T; CHUNK] {
        let at = (y * self.width + x) / CHUNK;
        self.chunks.get(at).unwrap_or([T::zeroed(); CHUNK])
    }

    /// The elements of row `y` from column `x` on; zeros outside of the matrix.
    #[inline(always)]
    fn elements(&self, x: usize, y: usize) -> [T; CHUNK] {
        core::array::from_fn(|q| {
            if y < self.height && x + q < self.width {
                self.input[y * self.width + x + q]
            } else {
                T::zeroed()
            }
        })
    }
}

/// The square of a thread in its tile of the input, (x, y). Threads that follow each other have
/// squares of one row, in an order that differs by row.
#[inline(always)]
fn square(thread: usize) -> (usize, usize) {
    let y = thread / SQUARES;
    ((thread ^ y) % SQUARES, y % SQUARES)
}

/// The place in the shared tile of the chunk that begins at or before column `x` of the output's
/// row `y`. It is the inverse of [`square`]: sixteen chunks that follow each other in a row lie in
/// different banks.
#[inline(always)]
fn slot(y: usize, x: usize) -> usize {
    let (square_x, square_y) = (y / CHUNK % SQUARES, x / CHUNK % SQUARES);
    y % CHUNK * (SQUARES * SQUARES) + square_y * SQUARES + (square_x ^ square_y)
}
