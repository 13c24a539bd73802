//! Softmax of rows.

#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::kernel::{ReadBy, WriteBy};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::{DeviceSlice, Grid1, Result, Stream, StreamTag};
use device_std::prelude::*;
use device_std::{Max, Operator, Sum};

use super::{CHUNK, Source, each_step, fold, of_row};
#[cfg(not(target_arch = "nvptx64"))]
use super::{Shape, held_or_long};

/// Writes the softmax of each row of `input`: element x of a row becomes exp(x - m) / s, where m is
/// the row's largest element, and s the sum of exp(x - m) over the row. Rows are `width` elements
/// long, and follow each other in `input` and `output`.
///
/// It enqueues one launch: of [`softmax_held`] if a thread can hold its part of the row, and rows
/// begin at multiples of 16 bytes; otherwise of [`softmax_long`]. A warp works on a row of up to
/// 1024 elements, and a block on a longer row. Nothing is enqueued if there is no row.
///
/// The exponential is [`fast::exp`](device_std::fast::exp), within 2 units in the last place; of
/// elements that are more than 87 below the largest one it is 0. A row with a NaN, with an infinite
/// largest element, or of -∞ alone, becomes NaN. The sum is added as a tree, equal in every run.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use device_kernels::softmax;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let (rows, width) = (2, 3);
/// let input = compute.alloc_from_slice(&[0.0, 0.0, f32::NEG_INFINITY, 1000.0, 1000.0, 0.0])?;
/// let mut output = compute.alloc_zeroed(rows * width)?;
/// softmax(&compute, &input, &mut output, width)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [0.5, 0.5, 0.0, 0.5, 0.5, 0.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
///
/// # Errors
/// [`Error::Library`](cuda_rt::Error::Library) with a [`LengthError`](crate::LengthError), if the
/// output is not made of whole rows, or if `input` has another length; those of a launch. Nothing
/// was enqueued.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
pub fn softmax<S: StreamTag>(
    stream: &Stream<S>,
    input: &DeviceSlice<f32, impl ReadBy<S>>,
    output: &mut DeviceSlice<f32, impl WriteBy<S>>,
    width: usize,
) -> Result<()> {
    let Some(shape) = Shape::of("softmax", input, output, width)? else {
        return Ok(());
    };
    let is_chunked = [input.address(), output.address()]
        .iter()
        .all(|address| address.0 % 16 == 0);
    held_or_long!(
        shape,
        is_chunked,
        |grid, width| softmax_held,
        softmax_long(stream, grid, input, output, width)
    )
}

/// [`softmax`] of rows that begin at multiples of 16 bytes, and have up to 4 · `STEPS` · `THREADS`
/// elements: a whole number of four. `THREADS` threads hold a row in registers: a warp with 32, a
/// block with 256.
///
/// The grid covers `THREADS` threads for each row, which is `Grid1::covering(THREADS * rows)`.
/// Traps if the output has more or fewer elements than these rows, if `input` is shorter, or if the
/// rows are not as this kernel needs them. [`softmax`] launches it.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::softmax_held;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[1.0, 1.0, 1.0, 1.0])?;
/// let mut output = compute.alloc_zeroed(4)?;
/// softmax_held::<32, 1, _>(&compute, Grid1::covering(32), &input, &mut output, 4)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [0.25; 4]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [<32, 1>, <32, 2>, <32, 4>, <32, 8>, <256, 2>, <256, 4>, <256, 8>])]
pub fn softmax_held<const THREADS: usize, const STEPS: usize>(
    mut block: Block,
    mut scratch: BlockUninit<f32, 8>,
    input: &[f32],
    output: PerRow<f32, 4, THREADS>,
    width: u32,
) {
    let rows = output.rows(&block, width as usize);
    let source = Source::of(input, &rows);
    source.assert_held(&rows, STEPS);
    let mut values = block.map(|lane| {
        let row = source.row(lane, &rows);
        each_step(&[[0.0; CHUNK]; STEPS], |k, _| row.chunk(k, f32::NEG_INFINITY))
    });
    let largest = block.map(|lane| fold::<Max, STEPS>(&values.get(lane)));
    let largest = of_row::<Max, THREADS>(&mut block, &mut scratch, &largest);
    block.update(&mut values, |lane, values| {
        let largest = largest.get(lane);
        *values = each_step(values, |_, chunk| chunk.map(|value| exp(value - largest)));
    });
    let sum = block.map(|lane| fold::<Sum, STEPS>(&values.get(lane)));
    let sum = of_row::<Sum, THREADS>(&mut block, &mut scratch, &sum);
    block.threads(|thread| {
        let factor = 1.0 / sum.get(thread);
        each_step(&values.get(thread), |k, chunk| {
            rows.set_chunk(thread, k, chunk.map(|value| value * factor));
            chunk
        });
    });
}

/// [`softmax`] of rows of any length, at any address. `THREADS` threads work on a row: a warp with
/// 32, a block with 256. Each thread keeps its largest element, and the sum that belongs to it,
/// after M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018).
///
/// The grid and the traps are as for [`softmax_held`]. [`softmax`] launches it.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::softmax_long;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_zeroed(100_000)?;
/// let mut output = compute.alloc_zeroed(100_000)?;
/// softmax_long::<256, _>(&compute, Grid1::covering(256), &input, &mut output, 100_000)?;
/// assert!(compute.copy_to_vec(&output)?.iter().all(|value| (value - 1e-5).abs() < 1e-10));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [32, 256])]
pub fn softmax_long<const THREADS: usize>(
    mut block: Block,
    mut scratch: BlockUninit<f32, 8>,
    input: &[f32],
    output: PerRow<f32, 4, THREADS>,
    width: u32,
) {
    let rows = output.rows(&block, width as usize);
    let source = Source::of(input, &rows);
    let own = block.map(|lane| {
        let (mut largest, mut sum) = (f32::NEG_INFINITY, 0.0);
        source.each(lane, &rows, f32::NEG_INFINITY, |_, chunk| {
            let next = <Max as Operator<f32>>::combine(largest, fold::<Max, 1>(&[chunk]));
            // A thread that has seen -∞ alone has nothing to add yet.
            let base = if next == f32::NEG_INFINITY { 0.0 } else { next };
            let terms = chunk.map(|value| exp(value - base));
            sum = sum * exp(largest - base) + fold::<Sum, 1>(&[terms]);
            largest = next;
        });
        [largest, sum]
    });
    let largest = block.map(|lane| own.get(lane)[0]);
    let largest = of_row::<Max, THREADS>(&mut block, &mut scratch, &largest);
    let sum = block.map(|lane| {
        let [own_largest, sum] = own.get(lane);
        if own_largest == f32::NEG_INFINITY {
            sum
        } else {
            sum * exp(own_largest - largest.get(lane))
        }
    });
    let sum = of_row::<Sum, THREADS>(&mut block, &mut scratch, &sum);
    block.threads(|thread| {
        let (largest, factor) = (largest.get(thread), 1.0 / sum.get(thread));
        source.each(thread, &rows, f32::NEG_INFINITY, |step, chunk| {
            rows.set(thread, step, chunk.map(|value| exp(value - largest) * factor));
        });
    });
}

/// e^x for x ≤ 0, which is 0 far below.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // `fast::exp` clamps its argument.
    if x < -87.0 { 0.0 } else { fast::exp(x) }
}
