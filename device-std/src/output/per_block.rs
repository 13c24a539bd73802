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
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// The first element of each block's part of the input, and how many blocks there are.
/// #[kernel(block = 32)]
/// fn firsts(
///     mut block: Block,
///     input: &[u32],
///     mut first: PerBlock<u32>,
///     mut blocks: PerBlock<u32>,
/// ) {
///     let value = block.map(|lane| input.get(lane.position()).copied().unwrap_or(0));
///     first.set_from_first(&block, &value); // the first thread's value
///     let count = blocks.len() as u32;
///     blocks.set(&block, count); // a value on which all threads agree
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let input = compute.alloc_from_slice(&(0..64).collect::<Vec<u32>>())?;
/// let mut first = compute.alloc_zeroed::<u32>(2)?;
/// let mut blocks = compute.alloc_zeroed::<u32>(2)?;
/// firsts(&compute, cuda_rt::Grid1::covering(64), &input, &mut first, &mut blocks)?;
/// assert_eq!(compute.copy_to_vec(&first)?, [0, 32]);
/// assert_eq!(compute.copy_to_vec(&blocks)?, [2, 2]);
/// # Ok(())
/// # })?
/// # }
/// ```
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

    crate::output::whole::len_of_output!();

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
