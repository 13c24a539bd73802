use core::marker::PhantomData;

use crate::chunk;
use crate::element::Element;
use crate::host_thread::HostThread;
use crate::index::Index;
use crate::output::whole::whole_output;

/// An output in which each thread owns `N` elements in a row: the thread at position i owns the
/// elements from `N * i` on. The last thread may own fewer.
///
/// The launch covers the output's length divided by `N`, rounded up:
/// `Grid1::covering(len.div_ceil(4))`. A thread that moves 16 bytes needs fewer instructions for
/// each byte than a thread that moves 4, and comes nearer to the memory's bandwidth.
///
/// ```
/// # use device_std::prelude::*;
/// fn double(i: Index1, input: &[f32], output: PerThreadChunk<f32, 4>) {
///     let values: [f32; 4] = input.chunk_or(i.get(), 0.0);
///     output.set(i, values.map(|value| value * 2.0));
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two threads write one element).
///
/// # Invariants
/// - PER-THREAD-CHUNK-1. `ptr` is valid for reads and writes of `len` elements, and only this
///   launch uses them.
/// - PER-THREAD-CHUNK-2. Distinct threads have distinct positions (INDEX-1, INDEX-2), so no two
///   threads reach one element.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// Doubles four elements a thread, in place. The last chunk may be shorter.
/// #[kernel]
/// fn double(i: Index1, data: PerThreadChunk<u32, 4>) {
///     if i.get() * 4 < data.len() {
///         data.set(i, data.get_or(i, 0).map(|value| value * 2));
///     }
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let mut data = compute.alloc_from_slice(&[1_u32, 2, 3, 4, 5, 6])?;
/// double(&compute, cuda_rt::Grid1::covering(2), &mut data)?;
/// assert_eq!(compute.copy_to_vec(&data)?, [2, 4, 6, 8, 10, 12]);
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct PerThreadChunk<'a, T, const N: usize> {
    ptr: *mut T,
    len: usize,
    host_thread: HostThread,
    _buffer: PhantomData<&'a mut [T]>,
}

// SAFETY: PER-THREAD-CHUNK-2: through `&PerThreadChunk`, a thread reaches only its own elements, by
// value.
unsafe impl<T: Element, const N: usize> Sync for PerThreadChunk<'_, T, N> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: PER-THREAD-CHUNK-2: it opens only with an index, which block-level code never has.
unsafe impl<T: Element, const N: usize> crate::PhaseSafe for PerThreadChunk<'_, T, N> {}

impl<T: Element, const N: usize> PerThreadChunk<'_, T, N> {
    const FITS: () = assert!(N > 0, "a chunk has elements");

    whole_output!("PER-THREAD-CHUNK-1.", Self::FITS);

    /// Reads this thread's elements; elements beyond the end are `fill`. One load, if the elements
    /// have 4, 8 or 16 bytes together and lie aligned to that size.
    #[inline(always)]
    pub fn get_or<I: Index>(&self, index: I, fill: T) -> [T; N] {
        let Some((first, count)) = self.of(index) else {
            return [fill; N];
        };
        if count == N {
            // SAFETY: PER-THREAD-CHUNK-1: N elements begin at `first`. PER-THREAD-CHUNK-2: only
            // this thread reaches them, and no reference to them exists.
            return unsafe { chunk::read(first) };
        }
        core::array::from_fn(|k| {
            if k < count {
                // SAFETY: PER-THREAD-CHUNK-1: k < count, so the element is inside the output.
                let element = unsafe { first.add(k) };
                // SAFETY: PER-THREAD-CHUNK-2: only this thread reaches the element.
                unsafe { *element }
            } else {
                fill
            }
        })
    }

    /// Writes this thread's elements, and nothing beyond the end. One store (`st.global.v4`), if
    /// the elements have 4, 8 or 16 bytes together and lie aligned to that size. An output that
    /// starts at the start of a buffer is aligned.
    #[inline(always)]
    pub fn set<I: Index>(&self, index: I, values: [T; N]) {
        let Some((first, count)) = self.of(index) else {
            return;
        };
        if count == N {
            // SAFETY: PER-THREAD-CHUNK-1: N elements begin at `first`. PER-THREAD-CHUNK-2: only
            // this thread reaches them, and no reference to them exists.
            unsafe { chunk::write(first, values) };
            return;
        }
        // A loop over `values.into_iter()` keeps the array in local memory.
        for (k, value) in values.iter().enumerate() {
            if k < count {
                // SAFETY: PER-THREAD-CHUNK-1: k < count, so the element is inside the output.
                let element = unsafe { first.add(k) };
                // SAFETY: PER-THREAD-CHUNK-2: only this thread reaches the element.
                unsafe { *element = *value };
            }
        }
    }

    /// The address and the number of this thread's elements: `N`, or fewer in the last thread.
    /// `None` if the thread has no elements.
    #[inline(always)]
    fn of<I: Index>(&self, index: I) -> Option<(*mut T, usize)> {
        self.host_thread.check();
        let (at, whole, rest) = (index.position(), self.len / N, self.len % N);
        // `N * at` cannot wrap: with `at` up to `whole`, it is at most `len`.
        let count = match at {
            at if at < whole => N,
            at if at == whole && rest > 0 => rest,
            _ => return None,
        };
        // SAFETY: PER-THREAD-CHUNK-1: N · at + count ≤ len.
        Some((unsafe { self.ptr.add(at * N) }, count))
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::rt::{SimulatedLaunch, each_index1};

    #[test]
    fn threads_cover_each_element_once_and_write_nothing_beyond() {
        for (len, start) in [(0, 0), (1, 0), (4, 0), (7, 0), (8, 1), (11, 2), (3, 3)] {
            // The memory is longer than the output, so that a write beyond the output's end shows.
            let mut memory = [0u32; 24];
            let ptr = memory[start..].as_mut_ptr();
            // SAFETY: the test makes one launch, and uses its positions only for the output that it
            // makes itself.
            let launch = unsafe { SimulatedLaunch::new(Extent { x: 9, y: 1, z: 1 }, [1; 3]) };
            each_index1(&launch, |i| {
                // SAFETY: PER-THREAD-CHUNK-1: `memory` outlives the call, and nothing else uses it.
                let output = unsafe { PerThreadChunk::<u32, 4>::new(ptr, len) };
                let before = output.get_or(i, 100);
                output.set(i, before.map(|value| value + 1 + i.get() as u32));
            });
            let expected: Vec<u32> = (0..len as u32).map(|at| at / 4 + 1).collect();
            assert_eq!(memory[start..start + len], expected);
            assert!(
                memory[..start]
                    .iter()
                    .chain(&memory[start + len..])
                    .all(|value| *value == 0)
            );
        }
    }

    #[test]
    fn a_position_whose_product_would_wrap_has_no_elements() {
        // SAFETY: PER-THREAD-CHUNK-1: the output has 0 elements, so it uses no memory.
        let output = unsafe { PerThreadChunk::<u8, 4>::new(core::ptr::dangling_mut(), 0) };
        // SAFETY: INDEX-1: no launch runs, and only this test holds an index.
        let last = unsafe { crate::Index1::new(u64::MAX) };
        output.set(last, [1; 4]);
        assert_eq!(output.get_or(last, 9), [9; 4]);
    }
}
