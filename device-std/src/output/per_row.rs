use core::marker::PhantomData;

use crate::block::{Block, Lane};
use crate::chunk;
use crate::element::Element;
use crate::host_thread::HostThread;
use crate::output::whole::whole_output;

/// An output of rows of equal width, each owned by `THREADS` threads that follow each other.
///
/// The launch has `THREADS` threads for each row: `Grid1::covering(THREADS * rows)`. A row belongs
/// to a warp with 32 threads, and to a block with as many as the block has. [`rows`](Self::rows)
/// opens the output. The threads of a row take its elements in steps; in each step, a thread writes
/// `N` elements.
///
/// ```
/// # use device_std::prelude::*;
/// use device_std::PerRow;
///
/// /// The number of its column in each element. Each warp writes a row.
/// fn columns(mut block: Block, output: PerRow<u32, 4, 32>, width: u32) {
///     let rows = output.rows(&block, width as usize);
///     block.threads(|thread| {
///         for step in 0..rows.steps() {
///             let place = rows.place(thread, step);
///             let column = |q: usize| (place.column + q * place.stride) as u32;
///             rows.set(thread, step, core::array::from_fn(column));
///         }
///     });
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two threads write one element).
///
/// # Invariants
/// They hold for [`Rows`] too.
///
/// - PER-ROW-1. `ptr` is valid for writes of `len` elements, and only this launch uses them.
/// - PER-ROW-2. The places of distinct threads, and of distinct steps of one thread, have no
///   element in common. The place of an element depends on the thread's position, on `ptr` and on
///   the width alone; the number of rows and `len` allow one width only. No reference to an element
///   exists. On the host, an element opens on one thread of the host only (`HostThread`).
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// use device_std::PerRow;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// The number of its row in each element.
/// #[kernel(block = 64)]
/// fn numbers(mut block: Block, output: PerRow<u32, 4, 32>, width: u32) {
///     assert!(!output.is_empty() && output.len() % width as usize == 0);
///     let rows = output.rows(&block, width as usize);
///     assert!(rows.len() == 3 && !rows.is_empty());
///     block.threads(|thread| {
///         for step in 0..rows.steps() {
///             let place = rows.place(thread, step);
///             assert!(place.count == 0 || place.column + place.count <= rows.width());
///             // 150 elements are no whole chunks.
///             assert!(!rows.is_chunked() && rows.chunk(thread, step).is_none());
///             rows.set(thread, step, [place.row as u32; 4]);
///         }
///     });
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut output = compute.alloc_zeroed::<u32>(3 * 150)?;
/// numbers(&compute, cuda_rt::Grid1::covering(3 * 32), &mut output, 150)?;
/// let output = compute.copy_to_vec(&output)?;
/// assert!(output.iter().zip(0..).all(|(row, at)| *row == at / 150));
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct PerRow<'a, T, const N: usize, const THREADS: usize> {
    ptr: *mut T,
    len: usize,
    host_thread: HostThread,
    _buffer: PhantomData<&'a mut [T]>,
}

/// A [`PerRow`] output whose width is known.
#[derive(Debug)]
pub struct Rows<'a, T, const N: usize, const THREADS: usize> {
    ptr: *mut T,
    rows: usize,
    width: usize,
    is_chunked: bool,
    /// Chunks of a row; 0 if the rows are not chunked.
    chunks: usize,
    host_thread: HostThread,
    _buffer: PhantomData<&'a mut [T]>,
}

/// The elements that a thread writes in one step of its row: the first one's row and column, and
/// the distance in columns from each to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlace {
    /// The row. It lies beyond the last row in threads that have no row.
    pub row: usize,
    /// The first element's column.
    pub column: usize,
    /// The columns from an element to the next one: 1, or the threads of the row.
    pub stride: usize,
    /// The elements that lie inside of the row, which are the first ones.
    pub count: usize,
}

// SAFETY: PER-ROW-2: through `&Rows`, a thread reaches only its own elements, by value.
unsafe impl<T: Element, const N: usize, const THREADS: usize> Sync for Rows<'_, T, N, THREADS> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: PER-ROW-2: it opens only with a lane, which block-level code never has.
unsafe impl<T: Element, const N: usize, const THREADS: usize> crate::PhaseSafe for Rows<'_, T, N, THREADS> {}

impl<'a, T: Element, const N: usize, const THREADS: usize> PerRow<'a, T, N, THREADS> {
    // The distinct places of `Rows::place` rest on powers of two.
    const FITS: () = assert!(
        N.is_power_of_two() && N <= 64 && THREADS.is_power_of_two() && THREADS >= 32 && THREADS <= 1024,
        "a row has 32 to 1024 threads, and each step of a thread 1 to 64 elements: powers of two"
    );

    /// The word of the type in a layout table. Distinct numbers give distinct words, because `FITS`
    /// bounds them.
    pub(crate) const WAY: u64 = {
        let () = Self::FITS;
        crate::rt::packed(7, N << 16 | THREADS)
    };

    whole_output!("PER-ROW-1.", Self::FITS);

    /// Opens the output as rows of `width` elements.
    ///
    /// # Panics
    /// If the launch's rows have more or fewer elements together than the output, or if the block's
    /// size is not a multiple of `THREADS`.
    #[inline(always)]
    pub fn rows(self, block: &Block<'_>, width: usize) -> Rows<'a, T, N, THREADS> {
        assert!(
            block.size().is_multiple_of(THREADS),
            "the threads of a row belong to two blocks"
        );
        let (_, _, extent) = block.numbers();
        let rows = extent.x.div_ceil(THREADS as u64) as usize;
        assert!(
            rows.checked_mul(width) == Some(self.len),
            "the output has more or fewer elements than the rows of the launch"
        );
        let alignment = const { chunk::alignment::<T, N>() };
        let is_aligned = |address: usize| address.is_multiple_of(alignment);
        // Each chunk of a row then begins at a multiple of the alignment, and ends in the row.
        let is_chunked = is_aligned(self.ptr.addr())
            && is_aligned(width.wrapping_mul(size_of::<T>()))
            && width.is_multiple_of(N);
        Rows {
            ptr: self.ptr,
            rows,
            width,
            is_chunked,
            chunks: if is_chunked { width / N } else { 0 },
            host_thread: self.host_thread,
            _buffer: PhantomData,
        }
    }
}

impl<T: Element, const N: usize, const THREADS: usize> Rows<'_, T, N, THREADS> {
    /// The number of rows.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The elements of a row.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The steps in which the threads of a row take all of its elements.
    #[inline(always)]
    pub fn steps(&self) -> usize {
        self.width.div_ceil(const { N * THREADS })
    }

    /// Whether each step of a thread is a chunk, `N` elements in a row: if the output's address and
    /// the bytes of a row are multiples of 16, or of the bytes of `N` elements. If not, the
    /// elements of a step are as far apart as the row has threads, so that threads that follow each
    /// other write elements that follow each other.
    #[inline(always)]
    pub fn is_chunked(&self) -> bool {
        self.is_chunked
    }

    /// The elements that the calling thread writes in step `step`. They may lie beyond the end of
    /// the row.
    #[inline(always)]
    pub fn place(&self, lane: &Lane<'_>, step: usize) -> RowPlace {
        let position = lane.position();
        let (row, at) = (position / THREADS, position % THREADS);
        let (column, stride, count) = if self.is_chunked {
            match self.chunk(lane, step) {
                Some((_, chunk)) => (chunk * N, 1, N),
                None => (self.width, 1, 0),
            }
        } else {
            // If the product wraps, it wraps by 2^64, a multiple of N · THREADS. So the remainder
            // that tells columns of threads apart stays.
            let column = step.wrapping_mul(const { N * THREADS }).wrapping_add(at);
            let count = if row >= self.rows || column >= self.width {
                0
            } else {
                Ord::min((self.width - column).div_ceil(THREADS), N)
            };
            (column, THREADS, count)
        };
        RowPlace {
            row,
            column,
            stride,
            count,
        }
    }

    /// The row of the calling thread, and the number in it of the chunk that the thread writes in
    /// step `step`: chunk c has the columns from c · `N` on. `None` beyond the end of the row, and
    /// if the rows are not chunked.
    #[inline(always)]
    pub fn chunk(&self, lane: &Lane<'_>, step: usize) -> Option<(usize, usize)> {
        let position = lane.position();
        let (row, at) = (position / THREADS, position % THREADS);
        // If the product wraps, it wraps by 2^64, a multiple of THREADS. So the remainder that
        // tells chunks of threads apart stays.
        let chunk = step.wrapping_mul(THREADS).wrapping_add(at);
        (row < self.rows && chunk < self.chunks).then_some((row, chunk))
    }

    /// Writes the elements of the calling thread's step `step`, at [`place`](Self::place): by one
    /// store for each 16 bytes, if the rows are chunked. Elements beyond the end of the row are not
    /// written.
    #[inline(always)]
    pub fn set(&self, lane: &Lane<'_>, step: usize, values: [T; N]) {
        if self.is_chunked {
            self.set_chunk(lane, step, values);
            return;
        }
        self.host_thread.check();
        let place = self.place(lane, step);
        if place.count == 0 {
            return;
        }
        // No position wraps: count > 0, so the place lies inside of the output.
        // SAFETY: PER-ROW-1: row < rows and column < width, so the position lies below
        // rows · width = len.
        let first = unsafe { self.ptr.add(place.row * self.width + place.column) };
        // A loop over `values.into_iter()` keeps the array in local memory.
        for (q, value) in values.iter().enumerate() {
            if q < place.count {
                // SAFETY: PER-ROW-1: q < count, so the column lies inside of the row.
                let element = unsafe { first.add(q * THREADS) };
                // SAFETY: PER-ROW-2: only this thread uses the element.
                unsafe { *element = *value };
            }
        }
    }

    /// Writes the chunk of the calling thread's step `step`, at [`chunk`](Self::chunk), by one
    /// store for each 16 bytes. A chunk beyond the end of the row is not written.
    ///
    /// # Panics
    /// If the rows are not chunked.
    #[inline(always)]
    pub fn set_chunk(&self, lane: &Lane<'_>, step: usize, values: [T; N]) {
        self.host_thread.check();
        assert!(self.is_chunked, "the rows have no chunks");
        let Some((row, chunk)) = self.chunk(lane, step) else {
            return;
        };
        // SAFETY: PER-ROW-1: row < rows and chunk < width / N, so the chunk's end lies below
        // rows · width = len. So nothing wraps.
        let first = unsafe { self.ptr.add(row * self.width + chunk * N) };
        // SAFETY: PER-ROW-1: as above, N elements begin at `first`. PER-ROW-2: only this thread
        // uses them. `ptr`, whole rows and whole chunks are multiples of the alignment.
        unsafe { chunk::write_aligned(first, values) };
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::block::OneD;

    /// Writes a different number into each element, and compares them with the places.
    fn covers<T: Element + PartialEq + From<u16>, const N: usize, const THREADS: usize>(
        size: u32,
        rows: usize,
        width: usize,
        start: usize,
    ) where
        u64: From<T>,
    {
        // The memory is longer than the output, so that a write beyond the output's end shows.
        let mut memory = vec![T::zeroed(); start + rows * width + 3 * width + 100];
        let (ptr, len) = (memory[start..].as_mut_ptr(), rows * width);
        let threads = rows * THREADS;
        let extent = Extent {
            x: threads as u64,
            y: 1,
            z: 1,
        };
        let blocks = threads.div_ceil(size as usize) as u32;
        for at in 0..blocks {
            // SAFETY: no launch runs, and the test makes each block of `size` threads once.
            let mut block: Block<'_, OneD> = unsafe { Block::new([at, 0], [size, 1], [blocks, 1], extent) };
            // SAFETY: PER-ROW-1: `memory` outlives the call, and nothing else uses it.
            let output = unsafe { PerRow::<T, N, THREADS>::new(ptr, len) };
            let rows = output.rows(&block, width);
            block.threads(|thread| {
                for step in 0..rows.steps() + 2 {
                    let place = rows.place(thread, step);
                    let at = |q: usize| place.row * width + place.column + q * place.stride;
                    rows.set(
                        thread,
                        step,
                        core::array::from_fn(|q| T::from((at(q) % 65_521) as u16 + 1)),
                    );
                }
                rows.set(thread, usize::MAX, [T::from(7); N]);
            });
        }
        let (before, rest) = memory.split_at(start);
        let (output, after) = rest.split_at(len);
        assert!(before.iter().chain(after).all(|value| *value == T::zeroed()));
        for (at, value) in output.iter().enumerate() {
            assert_eq!(
                u64::from(*value),
                (at % 65_521) as u64 + 1,
                "{rows}x{width} from {start}, element {at}"
            );
        }
    }

    #[test]
    fn steps_cover_each_element_once_and_write_nothing_beyond() {
        for (rows, width) in [
            (0, 5),
            (3, 0),
            (1, 1),
            (3, 31),
            (5, 128),
            (9, 130),
            (2, 1023),
            (7, 516),
        ] {
            for start in [0, 1] {
                covers::<u32, 4, 32>(256, rows, width, start);
                covers::<u32, 4, 256>(256, rows, width, start);
                covers::<u64, 4, 64>(128, rows, width, start);
                covers::<u64, 2, 32>(32, rows, width, start);
                covers::<u16, 1, 32>(64, rows, width, start);
                covers::<u16, 16, 32>(64, rows, width, start);
            }
        }
    }

    /// Also of steps whose columns wrap.
    #[test]
    fn places_of_distinct_threads_and_steps_differ() {
        for width in [1 << 12, (1 << 12) + 1] {
            let extent = Extent { x: 64, y: 1, z: 1 };
            // SAFETY: no launch runs, and the test makes one block, of 64 threads.
            let mut block: Block<'_, OneD> = unsafe { Block::new([0, 0], [64, 1], [1, 1], extent) };
            let rows = Rows::<u32, 4, 32> {
                ptr: core::ptr::dangling_mut(),
                rows: 2,
                width,
                is_chunked: width % 4 == 0,
                chunks: if width % 4 == 0 { width / 4 } else { 0 },
                host_thread: HostThread::current(),
                _buffer: PhantomData,
            };
            let seen = std::sync::Mutex::new(std::collections::HashMap::new());
            block.threads(|thread| {
                for step in (0..64).chain([1 << 57, (1 << 57) + 1, 1 << 62, usize::MAX]) {
                    let place = rows.place(thread, step);
                    let chunk = rows.chunk(thread, step).map(|(row, chunk)| (row, 4 * chunk));
                    let is_chunk = place.count > 0 && width % 4 == 0;
                    assert_eq!(chunk, is_chunk.then_some((place.row, place.column)));
                    for q in 0..place.count {
                        let element = (place.row, place.column + q * place.stride);
                        let owner = *seen.lock().unwrap().entry(element).or_insert(thread.index());
                        assert_eq!(owner, thread.index(), "{element:?}");
                    }
                }
            });
            assert_eq!(seen.lock().unwrap().len(), 2 * width);
        }
    }

    fn open(size: u32, threads: u64, len: usize, width: usize) -> usize {
        let extent = Extent {
            x: threads,
            y: 1,
            z: 1,
        };
        // SAFETY: no launch runs, and only this call uses the block.
        let block: Block<'_, OneD> = unsafe { Block::new([0, 0], [size, 1], [1, 1], extent) };
        // SAFETY: PER-ROW-1: nothing is written.
        let output = unsafe { PerRow::<u32, 4, 64>::new(core::ptr::dangling_mut(), len) };
        output.rows(&block, width).len()
    }

    #[test]
    fn rows_are_counted_by_the_launch() {
        assert_eq!(open(128, 128, 20, 10), 2);
        assert_eq!(open(128, 65, 20, 10), 2);
    }

    #[test]
    #[should_panic(expected = "more or fewer elements than the rows of the launch")]
    fn a_width_that_is_not_the_outputs_is_refused() {
        open(128, 128, 20, 9);
    }

    /// 2 · 2^63 wraps to 0.
    #[test]
    #[should_panic(expected = "more or fewer elements than the rows of the launch")]
    fn a_width_whose_product_wraps_is_refused() {
        open(128, 128, 0, 1 << 63);
    }

    #[test]
    #[should_panic(expected = "belong to two blocks")]
    fn a_row_of_two_blocks_is_refused() {
        open(96, 96, 20, 10);
    }
}
