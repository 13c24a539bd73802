//! Softmax and layer normalisation of rows. A row belongs to a warp or to a block, which holds it
//! in registers, so that it is read once. Longer rows are read again, and so are rows whose chunks
//! of 16 bytes are not aligned; the second time, the threads find them in the cache.

mod layer_norm;
mod softmax;

use device_std::prelude::*;
use device_std::{AlignedChunks, Lane, Operator, Private, Rows, unroll};

#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::{DeviceSlice, Result};

#[cfg(not(target_arch = "nvptx64"))]
use crate::length_error::{LengthError, Mismatch};

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
    #[track_caller]
    fn of<P, Q>(
        function: &'static str,
        input: &DeviceSlice<f32, P>,
        output: &DeviceSlice<f32, Q>,
        width: usize,
    ) -> Result<Option<Self>> {
        let (input, output) = (input.len(), output.len());
        if input != output {
            return Err(LengthError::of(function, Mismatch::Input { input, output }));
        }
        if output == 0 {
            return Ok(None);
        }
        if width == 0 || !output.is_multiple_of(width) || u32::try_from(width).is_err() {
            return Err(LengthError::of(function, Mismatch::Width { width, output }));
        }
        let rows = output / width;
        Ok(Some(Self { rows, width }))
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

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use held_or_long;
#[cfg(not(target_arch = "nvptx64"))]
pub use layer_norm::layer_norm;
pub use layer_norm::{layer_norm_held, layer_norm_long};
#[cfg(not(target_arch = "nvptx64"))]
pub use softmax::softmax;
pub use softmax::{softmax_held, softmax_long};

/// The steps of a row from whose address 16 bytes can be moved, and which has few of them.
type Held<const STEPS: usize> = [[f32; CHUNK]; STEPS];

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
