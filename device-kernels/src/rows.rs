//! Softmax and layer normalisation of rows. A row belongs to a warp or to a block, which holds it
//! in registers, so that it is read once. The threads of a block read longer rows again; the second
//! time they find them in the cache.

use device_std::prelude::*;
use device_std::{AlignedChunks, Lane, Max, Operator, Private, Rows, Sum, unroll};

/// Elements of a step of a thread.
const CHUNK: usize = 4;
/// Steps that a thread holds at most.
const HELD: usize = 8;
/// Steps that a thread reads before it uses any of a row that it does not hold.
const IN_FLIGHT: usize = 4;

/// Writes the softmax of each row of `input`: element x of a row becomes exp(x - m) / s, where m is
/// the row's largest element, and s the sum of exp(x - m) over the row. Rows are `width` elements
/// long, and follow each other in `input` and `output`.
///
/// `THREADS` threads work on a row: 32 are a warp, for rows of up to 1024 elements, and 256 are a
/// block, for longer rows. Rows of up to 32 · `THREADS` elements are read once. The grid covers
/// `THREADS` threads for each row, which is `Grid1::covering(THREADS * rows)`. Traps if the output
/// has more or fewer elements than these rows, or if `input` is shorter.
///
/// The exponential is [`fast::exp`](device_std::fast::exp), within 2 units in the last place; of
/// elements that are more than 87 below the largest one it is 0. A row with a NaN, with an infinite
/// largest element, or of -∞ alone, becomes NaN. The sum is added as a tree, equal in every run.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::softmax;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let (rows, width) = (2, 3);
/// let input = compute.alloc_from_slice(&[0.0, 0.0, f32::NEG_INFINITY, 1000.0, 1000.0, 0.0])?;
/// let mut output = compute.alloc_zeroed(rows * width)?;
/// softmax::<32, _>(&compute, Grid1::covering(32 * rows), &input, &mut output, width as u32)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [0.5, 0.5, 0.0, 0.5, 0.5, 0.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [32, 256])]
pub fn softmax<const THREADS: usize>(
    mut block: Block,
    mut scratch: BlockUninit<f32, 8>,
    input: &[f32],
    output: PerRow<f32, 4, THREADS>,
    width: u32,
) {
    let rows = output.rows(&block, width as usize);
    let source = Source::of(input, &rows);
    match rows.steps() {
        0 | 1 => softmax_held::<THREADS, 1>(&mut block, &mut scratch, source, &rows),
        2 => softmax_held::<THREADS, 2>(&mut block, &mut scratch, source, &rows),
        3 | 4 => softmax_held::<THREADS, 4>(&mut block, &mut scratch, source, &rows),
        5..=8 => softmax_held::<THREADS, 8>(&mut block, &mut scratch, source, &rows),
        _ => softmax_long(&mut block, &mut scratch, source, &rows),
    }
}

/// [`softmax`] of a row that fits `STEPS` steps of its threads.
#[inline(always)]
fn softmax_held<const THREADS: usize, const STEPS: usize>(
    block: &mut Block,
    scratch: &mut BlockUninit<'_, f32, 8>,
    source: Source<'_>,
    rows: &Rows<'_, f32, CHUNK, THREADS>,
) {
    let mut values = block.map(|lane| source.steps::<THREADS, STEPS>(lane, rows, 0, f32::NEG_INFINITY));
    let largest = block.map(|lane| fold::<Max, STEPS>(&values.get(lane)));
    let largest = of_row::<Max, THREADS>(block, scratch, &largest);
    block.update(&mut values, |lane, values| {
        let largest = largest.get(lane);
        *values = each(values, |_, _, value| exp(value - largest));
    });
    let sum = block.map(|lane| fold::<Sum, STEPS>(&values.get(lane)));
    let sum = of_row::<Sum, THREADS>(block, scratch, &sum);
    block.threads(|thread| {
        let factor = 1.0 / sum.get(thread);
        let values = each(&values.get(thread), |_, _, value| value * factor);
        set(rows, thread, 0, &values);
    });
}

/// [`softmax`] of a longer row. Each thread keeps its largest element, and the sum that belongs to
/// it, after M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018).
#[inline(always)]
fn softmax_long<const THREADS: usize>(
    block: &mut Block,
    scratch: &mut BlockUninit<'_, f32, 8>,
    source: Source<'_>,
    rows: &Rows<'_, f32, CHUNK, THREADS>,
) {
    let own = block.map(|lane| {
        let (mut largest, mut sum, mut first) = (f32::NEG_INFINITY, 0.0, 0);
        while first < rows.steps() {
            let values = source.steps::<THREADS, IN_FLIGHT>(lane, rows, first, f32::NEG_INFINITY);
            let next = <Max as Operator<f32>>::combine(largest, fold::<Max, IN_FLIGHT>(&values));
            // A thread that has seen -∞ alone has nothing to add yet.
            let base = if next == f32::NEG_INFINITY { 0.0 } else { next };
            let terms = each(&values, |_, _, value| exp(value - base));
            sum = sum * exp(largest - base) + fold::<Sum, IN_FLIGHT>(&terms);
            largest = next;
            first += IN_FLIGHT;
        }
        [largest, sum]
    });
    let largest = block.map(|lane| own.get(lane)[0]);
    let largest = of_row::<Max, THREADS>(block, scratch, &largest);
    let sum = block.map(|lane| {
        let [own_largest, sum] = own.get(lane);
        if own_largest == f32::NEG_INFINITY {
            sum
        } else {
            sum * exp(own_largest - largest.get(lane))
        }
    });
    let sum = of_row::<Sum, THREADS>(block, scratch, &sum);
    block.threads(|thread| {
        let (largest, factor) = (largest.get(thread), 1.0 / sum.get(thread));
        let mut first = 0;
        while first < rows.steps() {
            let values = source.steps::<THREADS, IN_FLIGHT>(thread, rows, first, f32::NEG_INFINITY);
            let values = each(&values, |_, _, value| exp(value - largest) * factor);
            set(rows, thread, first, &values);
            first += IN_FLIGHT;
        }
    });
}

/// Normalises each row of `input`, and scales it: element x of a row becomes (x - m) / sqrt(v +
/// `epsilon`) · w + b, where m is the row's mean, v the mean of (x - m)², and w and b the elements
/// of `weight` and `bias` of the same column. Rows are `width` elements long, and follow each other
/// in `input` and `output`.
///
/// `THREADS` threads work on a row: 32 are a warp, for rows of up to 1024 elements, and 256 are a
/// block, for longer rows. Rows of up to 32 · `THREADS` elements are read once. The grid covers
/// `THREADS` threads for each row, which is `Grid1::covering(THREADS * rows)`. Traps if the output
/// has more or fewer elements than these rows, or if an input is shorter.
///
/// Both means are sums that are added as trees, equal in every run. The second one is of differences
/// from the first, so it is accurate also where m is much larger than x - m.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::layer_norm;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let (rows, width) = (2, 4);
/// let input = compute.alloc_from_slice(&[1.0, 3.0, 1.0, 3.0, 10.0, 10.0, 14.0, 14.0])?;
/// let weight = compute.alloc_from_slice(&[1.0, 1.0, 10.0, 10.0])?;
/// let bias = compute.alloc_from_slice(&[0.0, 0.0, 100.0, 100.0])?;
/// let mut output = compute.alloc_zeroed(rows * width)?;
/// let grid = Grid1::covering(32 * rows);
/// layer_norm::<32, _>(&compute, grid, &input, &weight, &bias, &mut output, width as u32, 0.0)?;
/// let expected = [-1.0, 1.0, 90.0, 110.0, -1.0, -1.0, 110.0, 110.0];
/// assert_eq!(compute.copy_to_vec(&output)?, expected);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [32, 256])]
pub fn layer_norm<const THREADS: usize>(
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
    let scale = Scale {
        weight: Source::of_each_row(weight, &rows),
        bias: Source::of_each_row(bias, &rows),
        epsilon,
    };
    match rows.steps() {
        0 | 1 => layer_norm_held::<THREADS, 1>(&mut block, &mut scratch, source, scale, &rows),
        2 => layer_norm_held::<THREADS, 2>(&mut block, &mut scratch, source, scale, &rows),
        3 | 4 => layer_norm_held::<THREADS, 4>(&mut block, &mut scratch, source, scale, &rows),
        5..=8 => layer_norm_held::<THREADS, 8>(&mut block, &mut scratch, source, scale, &rows),
        _ => layer_norm_long(&mut block, &mut scratch, source, scale, &rows),
    }
}

/// What [`layer_norm`] does with a normalised row.
#[derive(Clone, Copy)]
struct Scale<'a> {
    weight: Source<'a>,
    bias: Source<'a>,
    epsilon: f32,
}

impl Scale<'_> {
    /// The factor of differences whose squares have this sum.
    #[inline(always)]
    fn factor(&self, squares: f32, width: usize) -> f32 {
        1.0 / Float::sqrt(squares / width as f32 + self.epsilon)
    }

    #[inline(always)]
    fn apply<const THREADS: usize, const STEPS: usize>(
        &self,
        lane: &Lane<'_>,
        rows: &Rows<'_, f32, CHUNK, THREADS>,
        first: usize,
        differences: &[[f32; CHUNK]; STEPS],
        factor: f32,
    ) {
        let weight = self.weight.steps::<THREADS, STEPS>(lane, rows, first, 0.0);
        let bias = self.bias.steps::<THREADS, STEPS>(lane, rows, first, 0.0);
        let scaled = each(differences, |k, q, value| {
            Float::mul_add(value * factor, weight[k][q], bias[k][q])
        });
        set(rows, lane, first, &scaled);
    }
}

/// [`layer_norm`] of a row that fits `STEPS` steps of its threads.
#[inline(always)]
fn layer_norm_held<const THREADS: usize, const STEPS: usize>(
    block: &mut Block,
    scratch: &mut BlockUninit<'_, f32, 8>,
    source: Source<'_>,
    scale: Scale<'_>,
    rows: &Rows<'_, f32, CHUNK, THREADS>,
) {
    let mut values = block.map(|lane| source.steps::<THREADS, STEPS>(lane, rows, 0, 0.0));
    let sum = block.map(|lane| fold::<Sum, STEPS>(&values.get(lane)));
    let sum = of_row::<Sum, THREADS>(block, scratch, &sum);
    block.update(&mut values, |lane, values| {
        let mean = sum.get(lane) / rows.width() as f32;
        *values = differences(lane, rows, 0, values, mean);
    });
    let squares = block.map(|lane| squares(&values.get(lane)));
    let squares = of_row::<Sum, THREADS>(block, scratch, &squares);
    block.threads(|thread| {
        let factor = scale.factor(squares.get(thread), rows.width());
        scale.apply::<THREADS, STEPS>(thread, rows, 0, &values.get(thread), factor);
    });
}

/// [`layer_norm`] of a longer row, which is read three times.
#[inline(always)]
fn layer_norm_long<const THREADS: usize>(
    block: &mut Block,
    scratch: &mut BlockUninit<'_, f32, 8>,
    source: Source<'_>,
    scale: Scale<'_>,
    rows: &Rows<'_, f32, CHUNK, THREADS>,
) {
    let sum = block.map(|lane| {
        let (mut sum, mut first) = (0.0, 0);
        while first < rows.steps() {
            sum += fold::<Sum, IN_FLIGHT>(&source.steps(lane, rows, first, 0.0));
            first += IN_FLIGHT;
        }
        sum
    });
    let sum = of_row::<Sum, THREADS>(block, scratch, &sum);
    let own = block.map(|lane| {
        let mean = sum.get(lane) / rows.width() as f32;
        let (mut sum, mut first) = (0.0, 0);
        while first < rows.steps() {
            let values: [_; IN_FLIGHT] = source.steps(lane, rows, first, 0.0);
            sum += squares(&differences(lane, rows, first, &values, mean));
            first += IN_FLIGHT;
        }
        sum
    });
    let squares = of_row::<Sum, THREADS>(block, scratch, &own);
    block.threads(|thread| {
        let mean = sum.get(thread) / rows.width() as f32;
        let factor = scale.factor(squares.get(thread), rows.width());
        let mut first = 0;
        while first < rows.steps() {
            let values: [_; IN_FLIGHT] = source.steps(thread, rows, first, 0.0);
            let differences = differences(thread, rows, first, &values, mean);
            scale.apply(thread, rows, first, &differences, factor);
            first += IN_FLIGHT;
        }
    });
}

/// The values less `mean`; 0 beyond the end of the row.
#[inline(always)]
fn differences<const THREADS: usize, const STEPS: usize>(
    lane: &Lane<'_>,
    rows: &Rows<'_, f32, CHUNK, THREADS>,
    first: usize,
    values: &[[f32; CHUNK]; STEPS],
    mean: f32,
) -> [[f32; CHUNK]; STEPS] {
    each(values, |k, q, value| {
        if q < rows.place(lane, first + k).count {
            value - mean
        } else {
            0.0
        }
    })
}

/// The sum of the values' squares.
#[inline(always)]
fn squares<const STEPS: usize>(values: &[[f32; CHUNK]; STEPS]) -> f32 {
    fold::<Sum, STEPS>(&each(values, |_, _, value| value * value))
}

/// e^x for x ≤ 0, which is 0 far below.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // `fast::exp` clamps its argument.
    if x < -87.0 { 0.0 } else { fast::exp(x) }
}

/// A function of each value, and of its step and its place in the step. A loop that is not written
/// out would keep the values in local memory.
#[inline(always)]
fn each<const STEPS: usize>(
    values: &[[f32; CHUNK]; STEPS],
    f: impl Fn(usize, usize, f32) -> f32,
) -> [[f32; CHUNK]; STEPS] {
    const { assert!(STEPS <= HELD) };
    let mut values = *values;
    unroll!(for k in 0..8 {
        if k < STEPS {
            let [a, b, c, d] = values[k];
            values[k] = [f(k, 0, a), f(k, 1, b), f(k, 2, c), f(k, 3, d)];
        }
    });
    values
}

/// Writes the steps of a thread from `first` on.
#[inline(always)]
fn set<const THREADS: usize, const STEPS: usize>(
    rows: &Rows<'_, f32, CHUNK, THREADS>,
    lane: &Lane<'_>,
    first: usize,
    values: &[[f32; CHUNK]; STEPS],
) {
    const { assert!(STEPS <= HELD) };
    unroll!(for k in 0..8 {
        if k < STEPS {
            rows.set(lane, first + k, values[k]);
        }
    });
}

/// The values of a thread, combined.
#[inline(always)]
fn fold<O: Operator<f32>, const STEPS: usize>(values: &[[f32; CHUNK]; STEPS]) -> f32 {
    const { assert!(STEPS <= HELD) };
    let [mut a, mut b, mut c, mut d] = values[0];
    unroll!(for k in 1..8 {
        if k < STEPS {
            a = O::combine(a, values[k][0]);
            b = O::combine(b, values[k][1]);
            c = O::combine(c, values[k][2]);
            d = O::combine(d, values[k][3]);
        }
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
        }
    }

    /// The elements of the steps from `first` on of a thread, and `fill` beyond the end of the row.
    #[inline(always)]
    fn steps<const THREADS: usize, const STEPS: usize>(
        &self,
        lane: &Lane<'_>,
        rows: &Rows<'_, f32, CHUNK, THREADS>,
        first: usize,
        fill: f32,
    ) -> [[f32; CHUNK]; STEPS] {
        const { assert!(STEPS <= HELD) };
        let mut values = [[fill; CHUNK]; STEPS];
        if self.is_chunked {
            unroll!(for k in 0..8 {
                if k < STEPS {
                    let place = rows.place(lane, first + k);
                    if place.count > 0 {
                        let at = place.row * self.stride + place.column;
                        values[k] = self.chunks.get(at / CHUNK).unwrap_or([fill; CHUNK]);
                    }
                }
            });
        } else {
            unroll!(for k in 0..8 {
                if k < STEPS {
                    let place = rows.place(lane, first + k);
                    let at = place.row * self.stride + place.column;
                    let value = |q: usize| {
                        if q < place.count {
                            self.all[at + q * place.stride]
                        } else {
                            fill
                        }
                    };
                    values[k] = [value(0), value(1), value(2), value(3)];
                }
            });
        }
        values
    }
}
