use core::marker::PhantomData;

use crate::chunk;
use crate::element::Element;
use crate::index::Index;

/// An output of which each thread owns `N` elements in a row: the thread at position i those from
/// `N * i` on. The last one may own fewer.
///
/// The launch covers the output's length divided by `N`, rounded up:
/// `Grid1::covering(len.div_ceil(4))`. Moving 16 bytes a thread takes fewer instructions than
/// moving 4, and so comes nearer to what the memory can do.
///
/// # Invariants
/// 1. `ptr` is valid for reads and writes of `len` elements, and only this launch uses them.
/// 2. Positions of distinct threads are distinct ([`Index`]), so no two threads reach one element.
#[derive(Debug)]
pub struct PerThreadChunk<'a, T, const N: usize> {
    ptr: *mut T,
    len: usize,
    _buffer: PhantomData<&'a mut [T]>,
}

// SAFETY: what a thread reaches through `&PerThreadChunk` are its own elements (invariant 2), by
// value.
unsafe impl<T: Element, const N: usize> Sync for PerThreadChunk<'_, T, N> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: it opens with a thread's index only.
unsafe impl<T: Element, const N: usize> crate::PhaseSafe for PerThreadChunk<'_, T, N> {}

impl<T: Element, const N: usize> PerThreadChunk<'_, T, N> {
    const FITS: () = assert!(N > 0, "a chunk has elements");

    /// # Safety
    /// Invariant 1.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut T, len: usize) -> Self {
        const { Self::FITS };
        Self {
            ptr,
            len,
            _buffer: PhantomData,
        }
    }

    /// Elements of the whole output.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the output has no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// This thread's elements; those beyond the end are `fill`. One load where they are 4, 8 or 16
    /// bytes and lie aligned.
    #[inline(always)]
    pub fn get_or<I: Index>(&self, index: I, fill: T) -> [T; N] {
        let Some((first, count)) = self.of(index) else {
            return [fill; N];
        };
        if count == N {
            // SAFETY: N elements, this thread's alone (invariant 2); no reference to them is ever
            // given out.
            return unsafe { chunk::read(first) };
        }
        core::array::from_fn(|k| {
            if k < count {
                // SAFETY: one of this thread's.
                let element = unsafe { first.add(k) };
                // SAFETY: this thread's alone (invariant 2).
                unsafe { *element }
            } else {
                fill
            }
        })
    }

    /// Writes this thread's elements, and nothing beyond the end. One store where they are 4, 8 or
    /// 16 bytes and lie aligned (`st.global.v4`), as they do from the start of a buffer.
    #[inline(always)]
    pub fn set<I: Index>(&self, index: I, values: [T; N]) {
        let Some((first, count)) = self.of(index) else {
            return;
        };
        if count == N {
            // SAFETY: N elements, this thread's alone (invariant 2); no reference to them is ever
            // given out.
            unsafe { chunk::write(first, values) };
            return;
        }
        for (k, value) in values.into_iter().enumerate() {
            if k < count {
                // SAFETY: one of this thread's.
                let element = unsafe { first.add(k) };
                // SAFETY: this thread's alone (invariant 2).
                unsafe { *element = value };
            }
        }
    }

    /// Where this thread's elements start, and how many there are: `N`, or fewer but some in the
    /// last thread that has any.
    #[inline(always)]
    fn of<I: Index>(&self, index: I) -> Option<(*mut T, usize)> {
        let (at, whole, rest) = (index.position(), self.len / N, self.len % N);
        // Below `whole` the product is at most `len`: no wrap.
        let count = match at {
            at if at < whole => N,
            at if at == whole && rest > 0 => rest,
            _ => return None,
        };
        // SAFETY: N · at + count ≤ len (invariant 1).
        Some((unsafe { self.ptr.add(at * N) }, count))
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::rt::{SimulatedLaunch, each_index1};

    #[test]
    fn threads_cover_each_element_once_and_nothing_beyond() {
        for (len, start) in [(0, 0), (1, 0), (4, 0), (7, 0), (8, 1), (11, 2), (3, 3)] {
            // Longer than the output, so that a write beyond its end shows.
            let mut memory = [0u32; 24];
            let ptr = memory[start..].as_mut_ptr();
            // SAFETY: the test makes one, for the output that it makes itself.
            let launch = unsafe { SimulatedLaunch::new(Extent { x: 9, y: 1, z: 1 }, [1; 3]) };
            each_index1(&launch, |i| {
                // SAFETY: `memory` outlives the call, and nothing else uses it.
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
        // SAFETY: no memory at all, for a thread that is the only one there is.
        let output = unsafe { PerThreadChunk::<u8, 4>::new(core::ptr::dangling_mut(), 0) };
        // SAFETY: as above.
        let last = unsafe { crate::Index1::new(u64::MAX) };
        output.set(last, [1; 4]);
        assert_eq!(output.get_or(last, 9), [9; 4]);
    }
}
