//! Layer normalisation of rows.

#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::kernel::{ReadBy, WriteBy};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::{DeviceSlice, Grid1, Result, Stream, StreamTag};
use device_std::prelude::*;
use device_std::{Rows, Sum, unroll};

use super::{CHUNK, Source, each_step, fold, of_row};
#[cfg(not(target_arch = "nvptx64"))]
use super::{Shape, held_or_long};
#[cfg(not(target_arch = "nvptx64"))]
use crate::length_error::{LengthError, Mismatch};

/// Normalises each row of `input`, and scales it: element x of a row becomes (x - m) / sqrt(v +
/// `epsilon`) · w + b, where m is the row's mean, v the mean of (x - m)², and w and b the elements
/// of `weight` and `bias` of the same column. Rows are `width` elements long, and follow each other
/// in `input` and `output`.
///
/// It enqueues one launch: of [`layer_norm_held`] if a thread can hold its part of the row, and all
/// rows begin at multiples of 16 bytes; otherwise of [`layer_norm_long`]. A warp works on a row of
/// up to 1024 elements, and a block on a longer row. Nothing is enqueued if there is no row.
///
/// `epsilon` is 0 or more. With 0, a row of equal elements becomes NaN. With a negative number, a
/// row becomes NaN if v + `epsilon` is negative.
///
/// Both means are sums that are added as trees, equal in every run. The second one is of
/// differences from the first, so it is accurate also where m is much larger than x - m.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use device_kernels::layer_norm;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let (rows, width) = (2, 4);
/// let input = compute.alloc_from_slice(&[1.0, 3.0, 1.0, 3.0, 10.0, 10.0, 14.0, 14.0])?;
/// let weight = compute.alloc_from_slice(&[1.0, 1.0, 10.0, 10.0])?;
/// let bias = compute.alloc_from_slice(&[0.0, 0.0, 100.0, 100.0])?;
/// let mut output = compute.alloc_zeroed(rows * width)?;
/// layer_norm(&compute, &input, &weight, &bias, &mut output, width, 0.0)?;
/// let expected = [-1.0, 1.0, 90.0, 110.0, -1.0, -1.0, 110.0, 110.0];
/// assert_eq!(compute.copy_to_vec(&output)?, expected);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
///
/// # Errors
/// [`Error::Library`](cuda_rt::Error::Library) with a [`LengthError`], if the output is not made of
/// whole rows, if `input` has another length, or if `weight` or `bias` has not `width` elements;
/// those of a launch. Nothing was enqueued.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
pub fn layer_norm<S: StreamTag>(
    stream: &Stream<S>,
    input: &DeviceSlice<f32, impl ReadBy<S>>,
    weight: &DeviceSlice<f32, impl ReadBy<S>>,
    bias: &DeviceSlice<f32, impl ReadBy<S>>,
    output: &mut DeviceSlice<f32, impl WriteBy<S>>,
    width: usize,
    epsilon: f32,
) -> Result<()> {
    let shape = Shape::of("layer_norm", input, output, width)?;
    if weight.len() != width || bias.len() != width {
        let (weight, bias) = (weight.len(), bias.len());
        let why = Mismatch::Columns { weight, bias, width };
        return Err(LengthError::of("layer_norm", why));
    }
    let Some(shape) = shape else {
        return Ok(());
    };
    let addresses = [
        input.address(),
        weight.address(),
        bias.address(),
        output.address(),
    ];
    let is_chunked = addresses.iter().all(|address| address.0 % 16 == 0);
    held_or_long!(
        shape,
        is_chunked,
        |grid, width| layer_norm_held,
        layer_norm_long(stream, grid, input, weight, bias, output, width, epsilon)
    )
}

/// [`layer_norm`] of rows that begin at multiples of 16 bytes, and have up to 4 · `STEPS` ·
/// `THREADS` elements: a whole number of four. `THREADS` threads hold a row in registers: a warp
/// with 32, a block with 256.
///
/// The grid covers `THREADS` threads for each row, which is `Grid1::covering(THREADS * rows)`.
/// Traps if the output has more or fewer elements than these rows, if an input is shorter, or if
/// the rows are not as this kernel needs them. [`layer_norm`] launches it.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::layer_norm_held;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[1.0, 3.0, 1.0, 3.0])?;
/// let (ones, zeros) = (compute.alloc_from_slice(&[1.0; 4])?, compute.alloc_zeroed(4)?);
/// let mut output = compute.alloc_zeroed(4)?;
/// let grid = Grid1::covering(32);
/// layer_norm_held::<32, 1, _>(&compute, grid, &input, &ones, &zeros, &mut output, 4, 0.0)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [-1.0, 1.0, -1.0, 1.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [<32, 1>, <32, 2>, <32, 4>, <32, 8>, <256, 2>, <256, 4>, <256, 8>])]
pub fn layer_norm_held<const THREADS: usize, const STEPS: usize>(
    mut block: Block,
    mut scratch: BlockUninit<f32, 8>,
    input: &[f32],
    weight: &[f32],
    bias: &[f32],
    output: PerRow<f32, 4, THREADS>,
    width: u32,
    epsilon: f32,
) {
    let rows = output.rows(&block, width as usize);
    let source = Source::of(input, &rows);
    let scale = Scale::of(weight, bias, epsilon, &rows);
    source.assert_held(&rows, STEPS);
    scale.weight.assert_held(&rows, STEPS);
    scale.bias.assert_held(&rows, STEPS);
    let mut values = block.map(|lane| {
        let row = source.row(lane, &rows);
        each_step(&[[0.0; CHUNK]; STEPS], |k, _| row.chunk(k, 0.0))
    });
    let sum = block.map(|lane| fold::<Sum, STEPS>(&values.get(lane)));
    let sum = of_row::<Sum, THREADS>(&mut block, &mut scratch, &sum);
    block.update(&mut values, |lane, values| {
        let mean = sum.get(lane) / rows.width() as f32;
        *values = each_step(values, |k, chunk| {
            // A chunk lies in the row, or beyond its end.
            let is_inside = rows.chunk(lane, k).is_some();
            chunk.map(|value| if is_inside { value - mean } else { 0.0 })
        });
    });
    let squares = block.map(|lane| {
        let squares = each_step(&values.get(lane), |_, chunk| chunk.map(|value| value * value));
        fold::<Sum, STEPS>(&squares)
    });
    let squares = of_row::<Sum, THREADS>(&mut block, &mut scratch, &squares);
    // In phases of two steps, so that few weights are held in registers at a time.
    unroll!(for phase in 0..4 {
        if phase * 2 < STEPS {
            block.threads(|thread| {
                let factor = scale.factor(squares.get(thread), rows.width());
                let (weight, bias) = (scale.weight.row(thread, &rows), scale.bias.row(thread, &rows));
                each_step(&values.get(thread), |k, chunk| {
                    if k / 2 == phase {
                        let (weight, bias) = (weight.chunk(k, 0.0), bias.chunk(k, 0.0));
                        rows.set_chunk(thread, k, scaled(chunk, factor, weight, bias));
                    }
                    chunk
                });
            });
        }
    });
}

/// What [`layer_norm`] does with a normalised row.
#[derive(Clone, Copy)]
struct Scale<'a> {
    weight: Source<'a>,
    bias: Source<'a>,
    epsilon: f32,
}

impl<'a> Scale<'a> {
    #[inline(always)]
    fn of<const THREADS: usize>(
        weight: &'a [f32],
        bias: &'a [f32],
        epsilon: f32,
        rows: &Rows<'_, f32, CHUNK, THREADS>,
    ) -> Self {
        Self {
            weight: Source::of_each_row(weight, rows),
            bias: Source::of_each_row(bias, rows),
            epsilon,
        }
    }

    /// The factor of differences whose squares have this sum.
    #[inline(always)]
    fn factor(&self, squares: f32, width: usize) -> f32 {
        1.0 / Float::sqrt(squares / width as f32 + self.epsilon)
    }
}

/// The differences, scaled.
#[inline(always)]
fn scaled(differences: [f32; CHUNK], factor: f32, weight: [f32; CHUNK], bias: [f32; CHUNK]) -> [f32; CHUNK] {
    core::array::from_fn(|q| Float::mul_add(differences[q] * factor, weight[q], bias[q]))
}

/// [`layer_norm`] of rows of any length, at any address, which are read three times. `THREADS`
/// threads work on a row: a warp with 32, a block with 256.
///
/// The grid and the traps are as for [`layer_norm_held`]. [`layer_norm`] launches it.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::layer_norm_long;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[1.0, 3.0, 1.0, 3.0, 2.0])?;
/// let (ones, zeros) = (compute.alloc_from_slice(&[1.0; 5])?, compute.alloc_zeroed(5)?);
/// let mut output = compute.alloc_zeroed(5)?;
/// let grid = Grid1::covering(32);
/// layer_norm_long::<32, _>(&compute, grid, &input, &ones, &zeros, &mut output, 5, 0.2)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [-1.0, 1.0, -1.0, 1.0, 0.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [32, 256])]
pub fn layer_norm_long<const THREADS: usize>(
    mut block: Block,
    mut scratch: BlockUninit<f32, 8>,
    input: &[f32],
    weight: &[f32],
    bias: &[f32],
    output: PerRow<f32, 4, THREADS>,
    width: u32,
    epsilon: f32,
) {
    let rows = output.rows(&block, width as usize);
    let source = Source::of(input, &rows);
    let scale = Scale::of(weight, bias, epsilon, &rows);
    let sum = block.map(|lane| {
        let mut sum = 0.0;
        source.each(lane, &rows, 0.0, |_, chunk| sum += fold::<Sum, 1>(&[chunk]));
        sum
    });
    let sum = of_row::<Sum, THREADS>(&mut block, &mut scratch, &sum);
    let squares = block.map(|lane| {
        let (mean, mut squares) = (sum.get(lane) / rows.width() as f32, 0.0);
        source.each(lane, &rows, 0.0, |step, [a, b, c, d]| {
            let count = rows.place(lane, step).count;
            let square = |q: usize, value: f32| {
                let difference = if q < count { value - mean } else { 0.0 };
                difference * difference
            };
            squares += fold::<Sum, 1>(&[[square(0, a), square(1, b), square(2, c), square(3, d)]]);
        });
        squares
    });
    let squares = of_row::<Sum, THREADS>(&mut block, &mut scratch, &squares);
    block.threads(|thread| {
        let mean = sum.get(thread) / rows.width() as f32;
        let factor = scale.factor(squares.get(thread), rows.width());
        let (row, weight, bias) = (
            source.row(thread, &rows),
            scale.weight.row(thread, &rows),
            scale.bias.row(thread, &rows),
        );
        let mut step = 0;
        while step < rows.steps() {
            let values = source.step(&row, thread, &rows, step, 0.0);
            let differences = values.map(|value| value - mean);
            let weight = scale.weight.step(&weight, thread, &rows, step, 0.0);
            let bias = scale.bias.step(&bias, thread, &rows, step, 0.0);
            rows.set(thread, step, scaled(differences, factor, weight, bias));
            step += 1;
        }
    });
}
