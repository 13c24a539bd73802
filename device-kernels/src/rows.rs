//! Softmax and layer normalisation of rows. A row belongs to a warp or to a block, which holds it
//! in registers, so that it is read once. Longer rows are read again, and so are rows whose chunks
//! of 16 bytes are not aligned; the second time, the threads find them in the cache.

use device_std::prelude::*;
use device_std::{AlignedChunks, Lane, Max, Operator, Private, Rows, Sum, unroll};

#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::kernel::{ReadBy, WriteBy};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::{DeviceSlice, Grid1, Result, Stream, StreamTag};

/// Elements of a step of a thread.
const CHUNK: usize = 4;
/// Steps that a thread holds at most.
const HELD: usize = 8;
/// The rows of a launch.
#[cfg(not(target_arch = "nvptx64"))]
struct Shape {
    rows: usize,
    width: usize,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Shape {
    /// `None` if there is no row.
    fn of<P, Q>(input: &DeviceSlice<f32, P>, output: &DeviceSlice<f32, Q>, width: usize) -> Option<Self> {
        assert_eq!(
            input.len(),
            output.len(),
            "the input and the output have other lengths"
        );
        if output.is_empty() {
            return None;
        }
        assert!(
            width > 0 && output.len().is_multiple_of(width) && u32::try_from(width).is_ok(),
            "the output is not made of whole rows"
        );
        Some(Self {
            rows: output.len() / width,
            width,
        })
    }
}

/// Launches the kernel for a shape: the one that holds a row, with the fewest threads and steps, or
/// the one for any row.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! held_or_long {
    ($shape:ident, $is_chunked:ident, |$grid:ident, $width:ident| $held:ident, $long:ident($($argument:expr),*)) => {{
        let Shape { rows, width } = $shape;
        let $width = width as u32;
        let by_warp = Grid1::covering(32 * rows);
        let by_block = Grid1::covering(256 * rows);
        let steps = width.div_ceil(CHUNK * if width <= 1024 { 32 } else { 256 });
        let is_held = $is_chunked && width.is_multiple_of(CHUNK);
        let $grid = if width <= 1024 { by_warp } else { by_block };
        match (width <= 1024, steps) {
            (true, _) if !is_held => $long::<32, S>($($argument),*),
            (false, _) if !is_held => $long::<256, S>($($argument),*),
            (true, ..=1) => $held::<32, 1, S>($($argument),*),
            (true, 2) => $held::<32, 2, S>($($argument),*),
            (true, 3..=4) => $held::<32, 4, S>($($argument),*),
            (true, _) => $held::<32, 8, S>($($argument),*),
            (false, ..=2) => $held::<256, 2, S>($($argument),*),
            (false, 3..=4) => $held::<256, 4, S>($($argument),*),
            (false, 5..=8) => $held::<256, 8, S>($($argument),*),
            (false, _) => $long::<256, S>($($argument),*),
        }
    }};
}

/// The steps of a row from whose address 16 bytes can be moved, and which has few of them.
type Held<const STEPS: usize> = [[f32; CHUNK]; STEPS];

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
/// Those of a launch.
///
/// # Panics
/// If the output is not made of whole rows, or if `input` has another length.
#[cfg(not(target_arch = "nvptx64"))]
pub fn softmax<S: StreamTag>(
    stream: &Stream<S>,
    input: &DeviceSlice<f32, impl ReadBy<S>>,
    output: &mut DeviceSlice<f32, impl WriteBy<S>>,
    width: usize,
) -> Result<()> {
    let Some(shape) = Shape::of(input, output, width) else {
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
/// The grid covers `THREADS` threads for each row, which is `Grid1::covering(THREADS * rows)`. Traps
/// if the output has more or fewer elements than these rows, if `input` is shorter, or if the rows
/// are not as this kernel needs them. [`softmax`] launches it.
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

/// [`softmax`] of rows of any length, at any address. `THREADS` threads work on a row: a warp with 32,
/// a block with 256. Each thread keeps its largest element, and the sum that belongs to it, after M.
/// Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018).
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

/// Normalises each row of `input`, and scales it: element x of a row becomes (x - m) / sqrt(v +
/// `epsilon`) · w + b, where m is the row's mean, v the mean of (x - m)², and w and b the elements
/// of `weight` and `bias` of the same column. Rows are `width` elements long, and follow each other
/// in `input` and `output`.
///
/// It enqueues one launch: of [`layer_norm_held`] if a thread can hold its part of the row, and all
/// rows begin at multiples of 16 bytes; otherwise of [`layer_norm_long`]. A warp works on a row of up
/// to 1024 elements, and a block on a longer row. Nothing is enqueued if there is no row.
///
/// Both means are sums that are added as trees, equal in every run. The second one is of differences
/// from the first, so it is accurate also where m is much larger than x - m.
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
/// Those of a launch.
///
/// # Panics
/// If the output is not made of whole rows, if `input` has another length, or if `weight` or `bias`
/// has not `width` elements.
#[cfg(not(target_arch = "nvptx64"))]
pub fn layer_norm<S: StreamTag>(
    stream: &Stream<S>,
    input: &DeviceSlice<f32, impl ReadBy<S>>,
    weight: &DeviceSlice<f32, impl ReadBy<S>>,
    bias: &DeviceSlice<f32, impl ReadBy<S>>,
    output: &mut DeviceSlice<f32, impl WriteBy<S>>,
    width: usize,
    epsilon: f32,
) -> Result<()> {
    assert!(
        weight.len() == width && bias.len() == width,
        "the weights or the biases are not as many as the elements of a row"
    );
    let Some(shape) = Shape::of(input, output, width) else {
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
/// The grid covers `THREADS` threads for each row, which is `Grid1::covering(THREADS * rows)`. Traps
/// if the output has more or fewer elements than these rows, if an input is shorter, or if the rows
/// are not as this kernel needs them. [`layer_norm`] launches it.
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

/// e^x for x ≤ 0, which is 0 far below.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // `fast::exp` clamps its argument.
    if x < -87.0 { 0.0 } else { fast::exp(x) }
}

/// A function of each step. A loop that is not written out would keep the values in local memory.
#[inline(always)]
fn each_step<const STEPS: usize>(
    values: &Held<STEPS>,
    mut f: impl FnMut(usize, [f32; CHUNK]) -> [f32; CHUNK],
) -> Held<STEPS> {
    const { assert!(STEPS <= HELD) };
    let mut values = *values;
    unroll!(for k in 0..8 {
        if k < STEPS {
            values[k] = f(k, values[k]);
        }
    });
    values
}

/// The values of a thread, combined.
#[inline(always)]
fn fold<O: Operator<f32>, const STEPS: usize>(values: &Held<STEPS>) -> f32 {
    let [mut a, mut b, mut c, mut d] = [O::IDENTITY; CHUNK];
    each_step(values, |_, chunk| {
        a = O::combine(a, chunk[0]);
        b = O::combine(b, chunk[1]);
        c = O::combine(c, chunk[2]);
        d = O::combine(d, chunk[3]);
        chunk
    });
    O::combine(O::combine(a, b), O::combine(c, d))
}

/// Each thread gets the values of all threads of its row, combined.
#[inline(always)]
fn of_row<O: Operator<f32>, const THREADS: usize>(
    block: &mut Block,
    scratch: &mut BlockUninit<'_, f32, 8>,
    value: &Private<f32>,
) -> Private<f32> {
    if THREADS == 32 {
        block.warp_reduce::<O, f32>(value)
    } else {
        assert!(THREADS == block.size(), "a row belongs to a warp, or to a block");
        let all = block.reduce::<O, f32, 8>(scratch, value);
        block.map(|_| all)
    }
}

/// An input whose elements belong to the rows of an output.
#[derive(Clone, Copy)]
struct Source<'a> {
    all: &'a [f32],
    chunks: AlignedChunks<'a, f32, CHUNK>,
    /// Each step of a thread is a chunk here and in the output.
    is_chunked: bool,
    /// Elements from a row to the next one: 0 if all rows have the same elements.
    stride: usize,
    /// Chunks from a row to the next one, if the rows are chunked.
    chunk_stride: usize,
}

impl<'a> Source<'a> {
    /// An input as large as the output.
    #[inline(always)]
    fn of<const THREADS: usize>(all: &'a [f32], rows: &Rows<'_, f32, CHUNK, THREADS>) -> Self {
        assert!(
            all.len() >= rows.len() * rows.width(),
            "the input is shorter than the rows of the output"
        );
        Self::new(all, rows, rows.width())
    }

    /// An input with an element for each column.
    #[inline(always)]
    fn of_each_row<const THREADS: usize>(all: &'a [f32], rows: &Rows<'_, f32, CHUNK, THREADS>) -> Self {
        assert!(
            all.len() >= rows.width(),
            "the weights or the biases are fewer than a row's elements"
        );
        Self::new(all, rows, 0)
    }

    #[inline(always)]
    fn new<const THREADS: usize>(
        all: &'a [f32],
        rows: &Rows<'_, f32, CHUNK, THREADS>,
        stride: usize,
    ) -> Self {
        let (before, chunks, _) = all.aligned_chunks::<CHUNK>();
        Self {
            all,
            chunks,
            is_chunked: before.is_empty() && rows.is_chunked(),
            stride,
            chunk_stride: stride / CHUNK,
        }
    }

    /// Traps if a thread cannot hold its part of a row in `steps` chunks.
    #[inline(always)]
    fn assert_held<const THREADS: usize>(&self, rows: &Rows<'_, f32, CHUNK, THREADS>, steps: usize) {
        assert!(
            self.is_chunked && rows.steps() <= steps,
            "the rows do not begin at multiples of 16 bytes, or are too long to be held"
        );
    }

    /// The chunks of the thread's row, which has none if the rows are not chunked.
    #[inline(always)]
    fn row<const THREADS: usize>(
        &self,
        lane: &Lane<'_>,
        rows: &Rows<'_, f32, CHUNK, THREADS>,
    ) -> RowChunks<'a, THREADS> {
        let (row, at) = (lane.position() / THREADS, lane.index() % THREADS);
        let first = row * self.chunk_stride;
        let count = if self.is_chunked && row < rows.len() {
            rows.width() / CHUNK
        } else {
            0
        };
        RowChunks {
            chunks: self.chunks.part(first, count),
            at,
        }
    }

    /// The elements of a thread of `row` in step `step`, and `fill` beyond the end of the row.
    #[inline(always)]
    fn step<const THREADS: usize>(
        &self,
        row: &RowChunks<'_, THREADS>,
        lane: &Lane<'_>,
        rows: &Rows<'_, f32, CHUNK, THREADS>,
        step: usize,
        fill: f32,
    ) -> [f32; CHUNK] {
        if self.is_chunked {
            return row.chunk(step, fill);
        }
        let place = rows.place(lane, step);
        let at = place.row * self.stride + place.column;
        let value = |q: usize| {
            if q < place.count {
                self.all[at + q * place.stride]
            } else {
                fill
            }
        };
        [value(0), value(1), value(2), value(3)]
    }

    /// Calls `f` with each step of a thread and its elements. It reads four chunks before it uses
    /// the first one.
    #[inline(always)]
    fn each<const THREADS: usize>(
        &self,
        lane: &Lane<'_>,
        rows: &Rows<'_, f32, CHUNK, THREADS>,
        fill: f32,
        mut f: impl FnMut(usize, [f32; CHUNK]),
    ) {
        let (mut step, row) = (0, self.row(lane, rows));
        while self.is_chunked && step + 4 <= rows.steps() {
            let chunk = |k| row.chunk(step + k, fill);
            let chunks = [chunk(0), chunk(1), chunk(2), chunk(3)];
            unroll!(for k in 0..4 {
                f(step + k, chunks[k]);
            });
            step += 4;
        }
        while step < rows.steps() {
            f(step, self.step(&row, lane, rows, step, fill));
            step += 1;
        }
    }
}

/// The chunks of a row, as one of its threads reads them.
struct RowChunks<'a, const THREADS: usize> {
    chunks: Option<AlignedChunks<'a, f32, CHUNK>>,
    /// The thread's number among those of the row.
    at: usize,
}

impl<const THREADS: usize> RowChunks<'_, THREADS> {
    /// The chunk of step `step`, and `fill` beyond the end of the row.
    #[inline(always)]
    fn chunk(&self, step: usize, fill: f32) -> [f32; CHUNK] {
        let chunk = self
            .chunks
            .and_then(|chunks| chunks.get(step * THREADS + self.at));
        chunk.unwrap_or([fill; CHUNK])
    }
}
