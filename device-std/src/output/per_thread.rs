use core::marker::PhantomData;

use crate::element::Element;
use crate::index::{Index, PlaneIndex};

/// An output of which each thread reaches its own element only: the one at its index's row-major
/// position.
///
/// # Invariants
/// 1. `ptr` is valid for reads and writes of `len` elements, and only this launch uses them.
/// 2. Positions of distinct threads are distinct ([`Index`]), so no two threads reach one element.
#[derive(Debug)]
pub struct PerThread<'a, T> {
    ptr: *mut T,
    len: usize,
    _buffer: PhantomData<&'a mut [T]>,
}

// SAFETY: what a thread reaches through `&PerThread` is its own element (invariant 2).
unsafe impl<T: Element> Sync for PerThread<'_, T> {}
#[cfg(target_arch = "nvptx64")]
// SAFETY: a copy of it reaches, in each thread, that thread's element only.
unsafe impl<T: Element> crate::PhaseSafe for PerThread<'_, T> {}

impl<'a, T: Element> PerThread<'a, T> {
    /// # Safety
    /// Invariant 1.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut T, len: usize) -> Self {
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

    /// This thread's element; `None` beyond the end.
    #[inline(always)]
    pub fn get_mut<I: Index>(&mut self, index: I) -> Option<&mut T> {
        let at = index.position();
        if at >= self.len {
            return None;
        }
        // SAFETY: in bounds of the buffer (invariant 1).
        let element = unsafe { self.ptr.add(at) };
        // SAFETY: this thread's alone (invariant 2), and `&mut self` is the only way to it
        // meanwhile.
        Some(unsafe { &mut *element })
    }

    /// Reads this thread's element; `None` beyond the end.
    #[inline(always)]
    pub fn get<I: Index>(&self, index: I) -> Option<T> {
        let at = index.position();
        if at >= self.len {
            return None;
        }
        // SAFETY: in bounds of the buffer (invariant 1).
        let element = unsafe { self.ptr.add(at) };
        // SAFETY: this thread's alone (invariant 2); no `&mut` to it lives while `self` is shared.
        Some(unsafe { *element })
    }

    /// Writes this thread's element, through a shared reference: for the closures of a phase.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline(always)]
    pub fn set<I: Index>(&self, index: I, value: T) {
        let at = index.position();
        assert!(
            at < self.len,
            "a thread's index lies beyond the end of its output"
        );
        // SAFETY: in bounds of the buffer (invariant 1).
        let element = unsafe { self.ptr.add(at) };
        // SAFETY: this thread's alone (invariant 2); no reference to it lives while `self` is
        // shared.
        unsafe { *element = value }
    }
}

/// An output of which each thread of a two-dimensional launch owns `ROWS` elements below each
/// other: thread (x, y) those at (x, y · `ROWS` + k), k < `ROWS`, of a row-major matrix as wide as
/// the launch.
///
/// The launch covers (width, height / `ROWS`, rounded up) threads. Neighbouring threads write
/// neighbouring elements.
#[derive(Debug)]
pub struct PerThreadColumn<'a, T, const ROWS: usize> {
    elements: PerThread<'a, T>,
}

impl<'a, T: Element, const ROWS: usize> PerThreadColumn<'a, T, ROWS> {
    const FITS: () = assert!(ROWS >= 1 && ROWS <= 1024, "a thread owns 1 to 1024 rows");

    /// # Safety
    /// As [`PerThread`]'s invariant 1.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut T, len: usize) -> Self {
        const { Self::FITS };
        // SAFETY: passed on to the caller.
        let elements = unsafe { PerThread::new(ptr, len) };
        Self { elements }
    }

    /// Writes row `k` of this thread's; nothing beyond the end of the output.
    ///
    /// # Panics
    /// If `k` is not below `ROWS`.
    #[inline(always)]
    pub fn set<I: PlaneIndex>(&self, index: I, k: usize, value: T) {
        assert!(k < ROWS, "a thread owns `ROWS` rows");
        let (x, y, width) = index.plane();
        // y < 2^32 and ROWS ≤ 2^10, so the row has at most 42 bits; past 32 of them the position
        // could wrap.
        let Ok(row) = u32::try_from(y as u64 * ROWS as u64 + k as u64) else {
            return;
        };
        let at = (row as u64 * width as u64 + x as u64) as usize;
        if at >= self.elements.len {
            return;
        }
        // SAFETY: in bounds of the buffer.
        let element = unsafe { self.elements.ptr.add(at) };
        // SAFETY: rows y · ROWS + k of distinct y with k < ROWS are distinct, and x < width: this
        // thread's alone. No references to elements are ever given out.
        unsafe { *element = value }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::rt::{SimulatedLaunch, each_index1, each_index2};

    fn launch(x: u64, y: u64) -> SimulatedLaunch {
        // SAFETY: each test makes one, for the outputs that it makes itself.
        unsafe { SimulatedLaunch::new(Extent { x, y, z: 1 }, [1; 3]) }
    }

    #[test]
    fn threads_beyond_the_output_get_nothing() {
        // Longer than the output, so that a write beyond its end shows.
        let mut memory = [0u32; 9];
        let (ptr, len) = (memory.as_mut_ptr(), 5);
        each_index1(&launch(9, 1), |i| {
            // SAFETY: `memory` outlives the call, and nothing else uses it.
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
    fn setting_beyond_the_output_panics() {
        each_index1(&launch(1, 1), |i| {
            // SAFETY: no memory at all.
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
            // SAFETY: `memory` outlives the call, and nothing else uses it.
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
