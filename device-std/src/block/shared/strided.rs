//! Elements of several words, each moved by one store or load for each 16 bytes.

use core::marker::PhantomData;

use super::{BlockShared, BlockUninit, View, element, store};
use crate::block::opening;
use crate::block::phase_safe::PhaseSafe;
use crate::block::phases::Block;
use crate::block::thread::{Dimensions, Thread};
use crate::chunk;
use crate::element::Element;

impl<'k, T: Element, const N: usize> BlockUninit<'k, T, N> {
    /// Writes the `K` elements of `f(thread)`: value k into element k · size + index, of the
    /// block's size and the thread's index. A thread that computes several elements from the same
    /// loads computes them once. Ends in a barrier (`__syncthreads`).
    ///
    /// # Panics
    /// If the block's threads have not `N` elements together.
    ///
    /// ```
    /// # use device_std::prelude::*;
    /// fn halves(
    ///     mut block: Block,
    ///     tile: BlockUninit<u32, 512>,
    ///     input: &[u64],
    ///     output: PerThread<u32>,
    /// ) {
    ///     // Low halves first, then high halves. Each thread loads its number once.
    ///     let tile = tile.init_strided(&mut block, |thread| {
    ///         let number = input.get(thread.position()).copied().unwrap_or(0);
    ///         [number as u32, (number >> 32) as u32]
    ///     });
    ///     let view = tile.view();
    ///     block.threads(|thread| {
    ///         if let Some(index) = thread.index_in_launch() {
    ///             let low = view.read(thread, thread.index());
    ///             output.set(index, low ^ view.read(thread, 511 - thread.index()));
    ///         }
    ///     });
    /// }
    /// ```
    #[inline(always)]
    pub fn init_strided<'b, D: Dimensions, F, const K: usize>(
        self,
        block: &mut Block<'b, D>,
        f: F,
    ) -> BlockShared<'k, T, N>
    where
        F: Fn(&Thread<'b, D>) -> [T; K] + PhaseSafe,
    {
        let (ptr, stride) = (self.ptr, block.size());
        assert!(
            stride.checked_mul(K) == Some(N),
            "the threads of the block write fewer or more elements than the shared memory has"
        );
        opening::write(ptr, N);
        block.run(|thread| {
            // A loop over `into_iter()` keeps the array in local memory.
            for (k, value) in f(thread).iter().enumerate() {
                // SAFETY: k < K and index < size, so k · size + index < K · size = N. The product
                // was checked, so nothing wraps.
                let slot = unsafe { element(ptr, k * stride + thread.index()) };
                // SAFETY: SHARED-MEMORY-1: thread indices are distinct and below `stride`, so no
                // other thread writes this element, and nothing reads before the barrier.
                unsafe { store(slot, *value) };
            }
        });
        block.barrier();
        BlockShared {
            ptr,
            _memory: PhantomData,
        }
    }
}

impl<T: Element> View<'_, T> {
    /// Element `at`. An element of several words is read by one load for each 16 bytes
    /// (`ld.shared.v4`), where an index of [`slice`](Self::slice) may become a load for each word.
    ///
    /// # Panics
    /// If `at` lies beyond the end.
    #[inline(always)]
    pub fn read<D: Dimensions>(&self, _thread: &Thread<'_, D>, at: usize) -> T {
        assert!(at < self.len, "read beyond the end of shared memory");
        // SAFETY: `at` was compared with `len`.
        let slot = unsafe { element(self.ptr.cast_mut(), at) };
        // SAFETY: SHARED-MEMORY-1: the element was written before a barrier, and nobody writes it
        // while the view lives. The memory begins at a multiple of 16 plus whole elements, and the
        // widest piece, 16 bytes at most, divides the size of an element.
        let [value] = unsafe { chunk::read_aligned(slot.cast_const()) };
        value
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::block::thread::OneD;

    /// Gives a block of 4 threads its shared memory.
    fn with_block(f: impl FnOnce(Block<'_, OneD>, BlockUninit<'_, u32, 12>)) {
        let mut memory = [0u128; 3];
        let extent = Extent { x: 4, y: 1, z: 1 };
        // SAFETY: no launch runs, and the test makes one block, of 4 threads.
        let block = unsafe { Block::new([0, 0], [4, 1], [1, 1], extent) };
        // SAFETY: the memory is aligned to 16 bytes, has 48 of them, and no other user.
        let tile = unsafe { BlockUninit::new(memory.as_mut_ptr().cast()) };
        f(block, tile);
    }

    #[test]
    fn value_k_of_a_thread_lies_k_sizes_behind_its_index() {
        with_block(|mut block, tile| {
            let tile = tile.init_strided(&mut block, |thread| {
                core::array::from_fn::<u32, 3, _>(|k| (10 * thread.index() + k) as u32)
            });
            let view = tile.view();
            block.threads(|thread| {
                assert_eq!(view.slice(thread), [0, 10, 20, 30, 1, 11, 21, 31, 2, 12, 22, 32]);
                assert_eq!(view.read(thread, 7), 31);
            });
        });
    }

    #[test]
    #[should_panic(expected = "fewer or more elements than the shared memory has")]
    fn threads_that_leave_elements_unwritten_are_refused() {
        with_block(|mut block, tile| {
            tile.init_strided(&mut block, |_| [0; 2]);
        });
    }

    #[test]
    #[should_panic(expected = "fewer or more elements than the shared memory has")]
    fn threads_that_write_beyond_the_end_are_refused() {
        with_block(|mut block, tile| {
            tile.init_strided(&mut block, |_| [0; 4]);
        });
    }

    /// 4 · (2^62 + 3) wraps to 12, the number of elements. No type of this length has elements
    /// with a size.
    #[test]
    #[should_panic(expected = "fewer or more elements than the shared memory has")]
    fn a_product_that_wraps_is_refused() {
        const K: usize = (1 << 62) + 3;
        with_block(|mut block, _| {
            let tile: BlockUninit<'_, [u32; 0], 12> = BlockUninit {
                ptr: core::ptr::dangling_mut(),
                _memory: PhantomData,
            };
            tile.init_strided(&mut block, |_| -> [[u32; 0]; K] { panic!("the product wrapped") });
        });
    }

    #[test]
    #[should_panic(expected = "read beyond the end of shared memory")]
    fn a_read_beyond_the_end_panics() {
        with_block(|mut block, tile| {
            let tile = tile.init_strided(&mut block, |_| [0; 3]);
            let view = tile.view();
            block.threads(|thread| {
                view.read(thread, 12);
            });
        });
    }
}
