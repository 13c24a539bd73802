use core::marker::PhantomData;

use crate::element::Element;
use crate::host_thread::HostThread;
use crate::index::{Index, PlaneIndex};
use crate::output::whole::whole_output;

/// An output in which each thread reaches only its own element, at the row-major position of its
/// index.
///
/// The kernel's grid covers the output's length, in elements. On the host, the argument is a
/// `&mut DeviceSlice<T, _>`.
///
/// ```
/// # use device_std::prelude::*;
/// fn double(i: Index1, mut data: PerThread<f32>) {
///     if let Some(value) = data.get_mut(i) {
///         *value *= 2.0;
///     }
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two threads write one element), [H29](crate::hazards#h29) (an input
/// is also an output).
///
/// # Invariants
/// - PER-THREAD-1. `ptr` is valid for reads and writes of `len` elements, and only this launch uses
///   them.
/// - PER-THREAD-2. Distinct threads of a launch have distinct positions (INDEX-1, INDEX-2), so no
///   two of them reach one element. An index of another launch opens an element on the same thread
///   of the host only (`HostThread`), and there only after this access.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// Each thread reads and writes its own element, of each output.
/// #[kernel]
/// fn accumulate(i: Index1, input: &[u32], mut sum: PerThread<u32>, last: PerThread<u32>) {
///     last.set(i, input[i.get()]); // does nothing past the end
///     assert_eq!(sum.len(), last.len());
///     if let (Some(sum), Some(last)) = (sum.get_mut(i), last.get(i)) {
///         *sum += last;
///     }
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let (mut sum, mut last) = (compute.alloc_zeroed::<u32>(3)?, compute.alloc_zeroed::<u32>(3)?);
/// for input in [[1, 2, 3], [10, 20, 30]] {
///     let input = compute.alloc_from_slice(&input)?;
///     accumulate(&compute, cuda_rt::Grid1::covering(3), &input, &mut sum, &mut last)?;
/// }
/// assert_eq!(compute.copy_to_vec(&sum)?, [11, 22, 33]);
/// assert_eq!(compute.copy_to_vec(&last)?, [10, 20, 30]);
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct PerThread<'a, T> {
    ptr: *mut T,
    len: usize,
    host_thread: HostThread,
    _buffer: PhantomData<&'a mut [T]>,
}

// SAFETY: PER-THREAD-2: through `&PerThread`, a thread reaches only its own element. On the host,
// another thread reaches none.
unsafe impl<T: Element> Sync for PerThread<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: PER-THREAD-2: it opens only with an index, which block-level code never has.
unsafe impl<T: Element> crate::PhaseSafe for PerThread<'_, T> {}

impl<'a, T: Element> PerThread<'a, T> {
    whole_output!("PER-THREAD-1.", ());

    /// This thread's element, to read and write; `None` beyond the end.
    #[inline(always)]
    pub fn get_mut<I: Index>(&mut self, index: I) -> Option<&mut T> {
        let at = index.position();
        if at >= self.len {
            return None;
        }
        // SAFETY: PER-THREAD-1: `at` was compared with `len`.
        let element = unsafe { self.ptr.add(at) };
        // SAFETY: PER-THREAD-2: no other thread reaches the element, and this thread reaches it
        // only through `&mut self`.
        Some(unsafe { &mut *element })
    }

    /// Reads this thread's element; `None` beyond the end.
    #[inline(always)]
    pub fn get<I: Index>(&self, index: I) -> Option<T> {
        self.host_thread.check();
        let at = index.position();
        if at >= self.len {
            return None;
        }
        // SAFETY: PER-THREAD-1: `at` was compared with `len`.
        let element = unsafe { self.ptr.add(at) };
        // SAFETY: PER-THREAD-2: no other thread reaches the element, and no `&mut` to it lives
        // while `self` is shared.
        Some(unsafe { *element })
    }

    /// Writes this thread's element through a shared reference, which the closure of a phase can
    /// capture.
    ///
    /// # Panics
    /// If the position lies beyond the end.
    #[inline(always)]
    pub fn set<I: Index>(&self, index: I, value: T) {
        self.host_thread.check();
        let at = index.position();
        assert!(
            at < self.len,
            "a thread's index lies beyond the end of its output"
        );
        // SAFETY: PER-THREAD-1: `at` was compared with `len`.
        let element = unsafe { self.ptr.add(at) };
        // SAFETY: PER-THREAD-2: no other thread reaches the element, and no reference to it lives
        // while `self` is shared.
        unsafe { *element = value }
    }
}

/// An output in which each thread of a two-dimensional launch owns `ROWS` elements of one column.
///
/// The output is a row-major matrix, as wide as the launch. Thread (x, y) owns the elements
/// (x, y · `ROWS` + k) with k < `ROWS`. The launch covers (width, height / `ROWS`, rounded up)
/// threads. Neighbouring threads write neighbouring elements.
///
/// ```
/// # use device_std::prelude::*;
/// fn copy(i: Index2, input: &[f32], output: PerThreadColumn<f32, 4>, width: u32) {
///     for k in 0..4 {
///         let row = i.y() * 4 + k;
///         output.set(i, k, input.get(row * width as usize + i.x()).copied().unwrap_or(0.0));
///     }
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two threads write one element).
#[derive(Debug)]
pub struct PerThreadColumn<'a, T, const ROWS: usize> {
    elements: PerThread<'a, T>,
}

impl<'a, T: Element, const ROWS: usize> PerThreadColumn<'a, T, ROWS> {
    const FITS: () = assert!(ROWS >= 1 && ROWS <= 1024, "a thread owns 1 to 1024 rows");

    /// # Safety
    /// PER-THREAD-1.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut T, len: usize) -> Self {
        const { Self::FITS };
        // SAFETY: PER-THREAD-1, which the caller promises too.
        let elements = unsafe { PerThread::new(ptr, len) };
        Self { elements }
    }

    /// Writes this thread's element in its row `k`. Beyond the end of the output, it does nothing.
    ///
    /// # Panics
    /// If `k` is not below `ROWS`.
    #[inline(always)]
    pub fn set<I: PlaneIndex>(&self, index: I, k: usize, value: T) {
        assert!(k < ROWS, "a thread owns `ROWS` rows");
        self.elements.host_thread.check();
        let (x, y, width) = index.plane();
        // y < 2^32 and ROWS ≤ 2^10, so the row has at most 42 bits. With more than 32 bits the
        // position could wrap, so the row counts as beyond the end.
        let Ok(row) = u32::try_from(y as u64 * ROWS as u64 + k as u64) else {
            return;
        };
        let at = (row as u64 * width as u64 + x as u64) as usize;
        if at >= self.elements.len {
            return;
        }
        // SAFETY: PER-THREAD-1: `at` was compared with `len`.
        let element = unsafe { self.elements.ptr.add(at) };
        // SAFETY: rows y · ROWS + k with k < ROWS differ for distinct y, and x < width, so only
        // this thread reaches the element (INDEX-1). This type gives out no references to elements.
        unsafe { *element = value }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::rt::{SimulatedLaunch, each_index1, each_index2};

    fn launch(x: u64, y: u64) -> SimulatedLaunch {
        // SAFETY: each test makes one launch, and uses its positions only for outputs that it makes
        // itself.
        unsafe { SimulatedLaunch::new(Extent { x, y, z: 1 }, [1; 3]) }
    }

    #[test]
    fn threads_beyond_the_output_get_no_element() {
        // The memory is longer than the output, so that a write beyond the output's end shows.
        let mut memory = [0u32; 9];
        let (ptr, len) = (memory.as_mut_ptr(), 5);
        each_index1(&launch(9, 1), |i| {
            // SAFETY: PER-THREAD-1: `memory` outlives the call, and nothing else uses it.
            let mut output = unsafe { PerThread::new(ptr, len) };
            if let Some(out) = output.get_mut(i) {
                *out += 1;
            }
            assert_eq!(output.get(i).is_some(), i.get() < 5);
        });
        assert_eq!(memory, [1, 1, 1, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn set_beyond_the_output_panics() {
        each_index1(&launch(1, 1), |i| {
            // SAFETY: PER-THREAD-1: the output has 0 elements, so it uses no memory.
            let output = unsafe { PerThread::new(core::ptr::dangling_mut::<u8>(), 0) };
            output.set(i, 1);
        });
    }

    #[test]
    fn columns_cover_each_element_once() {
        let (width, height) = (5, 7);
        let mut memory = vec![0u32; width * height];
        let (ptr, len) = (memory.as_mut_ptr(), memory.len());
        let mut calls = 0u32;
        let writes = core::cell::Cell::new(0u32);
        each_index2(&launch(5, 2), |i| {
            // SAFETY: PER-THREAD-1: `memory` outlives the call, and nothing else uses it.
            let output = unsafe { PerThreadColumn::<u32, 4>::new(ptr, len) };
            for k in 0..4 {
                writes.set(writes.get() + 1);
                output.set(i, k, writes.get());
            }
        });
        calls += writes.get();
        assert_eq!(calls, 40);
        memory.sort();
        memory.dedup();
        assert_eq!(memory.len(), width * height, "two threads wrote one element");
        assert!(!memory.contains(&0));
    }
}
