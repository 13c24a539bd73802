use core::marker::PhantomData;

use crate::chunk;
use crate::element::Element;
use crate::host_thread::HostThread;
use crate::index::PlaneIndex;
use crate::output::whole::whole_output;

/// Chunks of a row that [`PerThreadTile`] gives to threads that follow each other.
const CHUNKS: u32 = 16;

/// An output of which each thread owns `ROWS` chunks of `N` elements, in a row-major matrix as wide
/// as the launch. A chunk is written by one store for each 16 bytes.
///
/// The launch covers (width, height / (`N` · `ROWS`), rounded up) threads. Thread (x, y) owns
/// elements of the rows from y · `ROWS` · `N` on, below (y + 1) · `ROWS` · `N`. Sixteen threads
/// that follow each other along x own sixteen chunks that follow each other in a row; the next
/// sixteen own the same columns of the next row, and so on for `N` rows. So `16 · N` threads own
/// as many columns together. If fewer threads are left at the end of the launch's width, each of
/// them owns the column at its own x: chunks along the column instead of along the row.
/// [`place`](Self::place) says which elements the first chunk has; each next one lies `N` rows
/// further.
///
/// [`PerThreadColumn`](crate::PerThreadColumn) is simpler, and stores one element at a time.
///
/// ```
/// # use device_std::prelude::*;
/// use device_std::TilePlace;
///
/// fn table(i: Index2, output: PerThreadTile<u32, 4, 2>) {
///     let number = |x: usize, y: usize| (1000 * y + x) as u32;
///     let chunk = |k: usize| match output.place(i) {
///         TilePlace::Row { x, y } => core::array::from_fn(|q| number(x + q, y + 4 * k)),
///         TilePlace::Column { x, y } => core::array::from_fn(|q| number(x, y + 4 * k + q)),
///     };
///     output.set(i, [chunk(0), chunk(1)]);
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two threads write one element).
///
/// # Invariants
/// - PER-THREAD-TILE-1. `ptr` is valid for reads and writes of `len` elements, which only this
///   launch uses.
/// - PER-THREAD-TILE-2. The chunks of distinct threads, and distinct chunks of one thread, have no
///   element in common; no reference to an element exists. On the host, an element opens on one
///   thread of the host only (`HostThread`).
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// use device_std::TilePlace;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// Writes the number of its row into each element.
/// #[kernel]
/// fn rows(i: Index2, output: PerThreadTile<u32, 4, 1>) {
///     let values = match output.place(i) {
///         TilePlace::Row { y, .. } => [y as u32; 4],
///         TilePlace::Column { y, .. } => core::array::from_fn(|q| (y + q) as u32),
///     };
///     output.set(i, [values]);
///     assert!(output.len() == 700 && !output.is_empty());
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut output = compute.alloc_zeroed::<u32>(70 * 10)?;
/// rows(&compute, cuda_rt::Grid2::covering(70, 10_usize.div_ceil(4)), &mut output)?;
/// let output = compute.copy_to_vec(&output)?;
/// assert!(output.iter().zip(0..).all(|(row, at)| *row == at / 70));
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct PerThreadTile<'a, T, const N: usize, const ROWS: usize> {
    ptr: *mut T,
    len: usize,
    host_thread: HostThread,
    _buffer: PhantomData<&'a mut [T]>,
}

/// The elements of a thread's first chunk: columns count along x, rows along y.
#[derive(Clone, Copy, Debug)]
pub enum TilePlace {
    /// The elements of row `y` from column `x` on.
    Row {
        /// The first element's column.
        x: usize,
        /// The row.
        y: usize,
    },
    /// The elements of column `x` from row `y` on.
    Column {
        /// The column.
        x: usize,
        /// The first element's row.
        y: usize,
    },
}

// SAFETY: PER-THREAD-TILE-2: through `&PerThreadTile`, a thread reaches only its own elements, by
// value.
unsafe impl<T: Element, const N: usize, const ROWS: usize> Sync for PerThreadTile<'_, T, N, ROWS> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: PER-THREAD-TILE-2: it opens only with an index, which block-level code never has.
unsafe impl<T: Element, const N: usize, const ROWS: usize> crate::PhaseSafe
    for PerThreadTile<'_, T, N, ROWS>
{
}

impl<T: Element, const N: usize, const ROWS: usize> PerThreadTile<'_, T, N, ROWS> {
    const FITS: () = assert!(
        N >= 1 && N <= 64 && ROWS >= 1 && ROWS <= 1024,
        "a thread owns 1 to 1024 chunks of 1 to 64 elements"
    );

    /// The word of the type in a layout table. Distinct numbers give distinct words, because `FITS`
    /// bounds them.
    pub(crate) const WAY: u64 = {
        let () = Self::FITS;
        crate::rt::packed(6, N << 16 | ROWS)
    };

    whole_output!("PER-THREAD-TILE-1.", Self::FITS);

    /// The elements of this thread's first chunk. Chunk k lies k · `N` rows further. Elements may
    /// lie beyond the end of the output.
    #[inline(always)]
    pub fn place<I: PlaneIndex>(&self, index: I) -> TilePlace {
        let (x, y, width) = index.plane();
        // y < 2^32, and N · ROWS ≤ 2^16: rows have at most 48 bits.
        let first_row = y as usize * const { N * ROWS };
        // At most 2^10 threads.
        let threads = const { CHUNKS * N as u32 };
        let (span, at) = (x - x % threads, x % threads);
        // No subtraction wraps: span ≤ x < width.
        if width - span >= threads {
            // Distinct for distinct threads: (span, at % CHUNKS) gives the columns, and at / CHUNKS
            // < N the row among N rows.
            TilePlace::Row {
                x: (span + at % CHUNKS * N as u32) as usize,
                y: first_row + (at / CHUNKS) as usize,
            }
        } else {
            TilePlace::Column {
                x: x as usize,
                y: first_row,
            }
        }
    }

    /// Writes this thread's chunks. Elements beyond the end of the output are not written.
    #[inline(always)]
    pub fn set<I: PlaneIndex>(&self, index: I, values: [[T; N]; ROWS]) {
        self.host_thread.check();
        let (_, _, width) = index.plane();
        // Loops over `into_iter()` keep the arrays in local memory.
        match self.place(index) {
            TilePlace::Row { x, y } => {
                // Each chunk then begins at a multiple of the alignment: x is a multiple of N.
                let alignment = const { chunk::alignment::<T, N>() };
                let is_aligned = self.ptr.addr().is_multiple_of(alignment)
                    && (width as usize * size_of::<T>()).is_multiple_of(alignment);
                let last = self.position(x, y + const { (ROWS - 1) * N }, width);
                let is_inside = last.is_some_and(|last| self.len - last >= N);
                if is_aligned && is_inside {
                    for (k, values) in values.iter().enumerate() {
                        // No position wraps: the last one does not, and this one lies before it.
                        let first = (y + k * N) * width as usize + x;
                        // SAFETY: PER-THREAD-TILE-1: first + N ≤ last + N ≤ len.
                        let to = unsafe { self.ptr.add(first) };
                        // SAFETY: `to` is `ptr` plus whole rows plus x elements, and each of the
                        // three is a multiple of the alignment. PER-THREAD-TILE-2: only this thread
                        // uses the N elements.
                        unsafe { chunk::write_aligned(to, *values) };
                    }
                    return;
                }
                for (k, values) in values.iter().enumerate() {
                    for (q, value) in values.iter().enumerate() {
                        self.write(x + q, y + k * N, width, *value);
                    }
                }
            }
            TilePlace::Column { x, y } => {
                for (k, values) in values.iter().enumerate() {
                    for (q, value) in values.iter().enumerate() {
                        self.write(x, y + k * N + q, width, *value);
                    }
                }
            }
        }
    }

    /// The position of column `x` of row `y`, if it lies inside the output.
    #[inline(always)]
    fn position(&self, x: usize, y: usize, width: u32) -> Option<usize> {
        // With more than 32 bits, the position could wrap, so the row counts as beyond the end.
        let row = u32::try_from(y).ok()?;
        let at = (row as u64 * width as u64) as usize + x;
        (at < self.len).then_some(at)
    }

    /// Writes the element in column `x` of row `y`, which is one of this thread's
    /// (PER-THREAD-TILE-2), unless it lies beyond the end.
    #[inline(always)]
    fn write(&self, x: usize, y: usize, width: u32, value: T) {
        let Some(at) = self.position(x, y, width) else {
            return;
        };
        // SAFETY: PER-THREAD-TILE-1: `position` compared `at` with `len`.
        let element = unsafe { self.ptr.add(at) };
        // SAFETY: PER-THREAD-TILE-2: only this thread uses the element.
        unsafe { *element = value }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::rt::{SimulatedLaunch, each_index2};

    /// Counts how often each element is written, and compares places with positions.
    fn covers<const N: usize, const ROWS: usize>(width: usize, height: usize, start: usize) {
        // The memory is longer than the output, so that a write beyond the output's end shows.
        let mut memory = vec![[0u32; 2]; start + width * height + 3 * width + 100];
        let (ptr, len) = (memory[start..].as_mut_ptr(), width * height);
        let rows = height.div_ceil(N * ROWS) as u64;
        let extent = Extent {
            x: width as u64,
            y: rows,
            z: 1,
        };
        // SAFETY: the test makes one launch, and uses its positions only for its own memory.
        let launch = unsafe { SimulatedLaunch::new(extent, [1; 3]) };
        let writes = core::cell::Cell::new(0u32);
        each_index2(&launch, |i| {
            // SAFETY: PER-THREAD-TILE-1: `memory` outlives the call, and nothing else uses it.
            let output = unsafe { PerThreadTile::<[u32; 2], N, ROWS>::new(ptr, len) };
            let chunk = |k: usize| {
                core::array::from_fn(|q| {
                    writes.set(writes.get() + 1);
                    let at = match output.place(i) {
                        TilePlace::Row { x, y } => (y + k * N) * width + x + q,
                        TilePlace::Column { x, y } => (y + k * N + q) * width + x,
                    };
                    [at as u32, writes.get()]
                })
            };
            output.set(i, core::array::from_fn(chunk));
        });
        let padded = rows as usize * N * ROWS * width;
        assert_eq!(writes.get() as usize, padded, "{width}x{height}");
        let (before, rest) = memory.split_at(start);
        let (output, after) = rest.split_at(len);
        assert!(before.iter().chain(after).all(|value| *value == [0; 2]));
        let mut numbers = Vec::new();
        for (at, [position, number]) in output.iter().enumerate() {
            assert_eq!(
                *position as usize, at,
                "{width}x{height}: written to another place"
            );
            numbers.push(*number);
        }
        // A number that was written twice is missing once: each element has its own.
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len(), len, "two threads wrote one element");
        assert!(!numbers.contains(&0));
    }

    #[test]
    fn chunks_cover_each_element_once_and_write_nothing_beyond() {
        for (width, height) in [(0, 0), (1, 1), (63, 5), (64, 16), (65, 17), (128, 33), (200, 40)] {
            for start in [0, 1] {
                covers::<4, 4>(width, height, start);
                covers::<4, 1>(width, height, start);
                covers::<2, 3>(width, height, start);
                covers::<1, 2>(width, height, start);
                covers::<3, 2>(width, height, start);
                covers::<8, 1>(width, height, start);
            }
        }
    }

    /// No two chunks of a launch meet, also where the output has no element.
    #[test]
    fn chunks_of_all_threads_are_distinct() {
        for width in [1, 15, 16, 63, 64, 65, 127, 128, 129] {
            let mut seen = std::collections::HashSet::new();
            for y in 0..3 {
                for x in 0..width {
                    // SAFETY: INDEX-1: no launch runs, and only this test holds an index.
                    let index = unsafe { crate::Index2::new(x, y, width) };
                    // SAFETY: PER-THREAD-TILE-1: the output has 0 elements, so it uses no memory.
                    let output = unsafe { PerThreadTile::<u32, 4, 2>::new(core::ptr::dangling_mut(), 0) };
                    for k in 0..2 {
                        for q in 0..4 {
                            assert!(seen.insert(match output.place(index) {
                                TilePlace::Row { x, y } => (x + q, y + 4 * k),
                                TilePlace::Column { x, y } => (x, y + 4 * k + q),
                            }));
                        }
                    }
                }
            }
            assert!(seen.iter().all(|(x, y)| *x < width as usize && *y < 24));
        }
    }

    #[test]
    fn a_position_that_would_wrap_has_no_elements() {
        // SAFETY: PER-THREAD-TILE-1: the output has 0 elements, so it uses no memory.
        let output = unsafe { PerThreadTile::<u8, 4, 1024>::new(core::ptr::dangling_mut(), 0) };
        // SAFETY: INDEX-1: no launch runs, and only this test holds an index.
        let last = unsafe { crate::Index2::new(u32::MAX - 1, u32::MAX - 1, u32::MAX) };
        output.set(last, [[1; 4]; 1024]);
    }
}
