use core::marker::PhantomData;

use crate::block::{Block, Dimensions, Private};
use crate::element::Element;

/// An output with one element for each block, at the block's row-major position in the grid.
///
/// The output has one element for each block of the grid; a kernel with more blocks traps.
///
/// ```
/// # use device_std::prelude::*;
/// fn block_numbers(block: Block, mut output: PerBlock<u32>) {
///     output.set(&block, block.position() as u32);
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two blocks, or two threads of a block, write one element).
///
/// # Invariants
/// - PER-BLOCK-1. `ptr` is valid for writes of `len` elements, and only this launch uses them.
/// - PER-BLOCK-2. Only the first thread of a block writes, and only its block's element.
#[derive(Debug)]
pub struct PerBlock<'a, T> {
    ptr: *mut T,
    len: usize,
    _buffer: PhantomData<&'a mut [T]>,
}

impl<T: Element> PerBlock<'_, T> {
    /// # Safety
    /// PER-BLOCK-1.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut T, len: usize) -> Self {
        Self {
            ptr,
            len,
            _buffer: PhantomData,
        }
    }

    /// The number of elements of the whole output.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the output has no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes this block's element, in the block's first thread (`st.global`).
    ///
    /// # Panics
    /// If there are more blocks than elements.
    #[inline(always)]
    pub fn set<D: Dimensions>(&mut self, block: &Block<'_, D>, value: T) {
        let at = block.position();
        assert!(
            at < self.len,
            "there are more blocks than elements of a `PerBlock` output"
        );
        if !block.is_first_thread() {
            return;
        }
        // SAFETY: PER-BLOCK-1: `at` was compared with `len`.
        let element = unsafe { self.ptr.add(at) };
        // SAFETY: PER-BLOCK-2: no other block has this position (BLOCK-1), and the block's other
        // threads have returned.
        unsafe { *element = value }
    }

    /// Writes the first thread's value into this block's element.
    ///
    /// # Panics
    /// If there are more blocks than elements.
    #[inline(always)]
    pub fn set_from_first<D: Dimensions>(&mut self, block: &Block<'_, D>, value: &Private<T>) {
        self.set(block, value.first());
    }
}
