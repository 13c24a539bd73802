//! What a kernel returns, and the elements of its output that each thread or block writes with it.
//!
//! The memory of such an output may hold nothing before the launch. Therefore the kernel gets no
//! access to it: the entry writes the returned value, after the kernel's function has returned.
//!
//! # Invariants
//! - RETURNED-1. Distinct places of one launch write distinct elements. The places of a launch
//!   whose [`covered`](Returned::covered) is `len` or more write all of `len` elements.
//! - RETURNED-2. Nothing reads the memory before the launch is over.

use core::marker::PhantomData;

use crate::block::{Block, Dimensions, Private};
use crate::chunk;
use crate::element::Element;
use crate::extent::Extent;
use crate::index::Index;

/// Where the value of one thread or block goes. The entry takes it before it calls the kernel's
/// function, which may consume the block.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The row-major position of the thread in the launch, or of the block in the grid.
    position: usize,
    /// Whether this thread writes the block's value.
    is_writer: bool,
    /// The numbers of the block, if the kernel takes a block.
    block: Option<BlockPlace>,
}

#[derive(Clone, Copy, Debug)]
struct BlockPlace {
    at: [u32; 2],
    size: [u32; 2],
    extent: Extent,
}

/// A token that a kernel gets: the index of its thread, or its block.
pub trait HasPlace {
    /// The place of the thread or block.
    fn place(&self) -> Place;
}

impl<I: Index> HasPlace for I {
    #[inline(always)]
    fn place(&self) -> Place {
        Place {
            position: self.position(),
            is_writer: true,
            block: None,
        }
    }
}

impl<D: Dimensions> HasPlace for Block<'_, D> {
    #[inline(always)]
    fn place(&self) -> Place {
        let (at, size, extent) = self.numbers();
        Place {
            position: self.position(),
            is_writer: self.is_first_thread(),
            block: Some(BlockPlace { at, size, extent }),
        }
    }
}

/// What a kernel returns: nothing (`()`), or a [`Returned`].
///
/// # Safety
/// `write` writes only elements of the memory, and returns their number.
pub unsafe trait Return: Sized {
    /// The type that the kernel's function returns.
    type Value;

    /// Whether the function runs at `place`. Threads and blocks beyond the end of the output do not
    /// run.
    fn runs(len: usize, place: &Place) -> bool;

    /// Writes the value of `place`, and returns the number of elements written.
    ///
    /// # Safety
    /// `start` is the address of `len` elements, aligned, that only this launch uses.
    /// [`runs`](Self::runs) holds for `len` and `place`, and the calling thread is at this place.
    unsafe fn write(start: *mut u8, len: usize, place: &Place, value: Self::Value) -> usize;
}

// SAFETY: nothing is written.
unsafe impl Return for () {
    type Value = ();

    #[inline(always)]
    fn runs(_: usize, _: &Place) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn write(_: *mut u8, _: usize, _: &Place, (): ()) -> usize {
        0
    }
}

/// What a kernel returns, if it returns something.
///
/// # Safety
/// RETURNED-1: `covered` counts the elements that all places write together, if there is room for
/// them.
pub unsafe trait Returned: Return {
    /// The element of the output.
    type Element: Element;
    /// The elements that a place writes: the last place may write fewer.
    const COUNT: usize;
    /// Identifies the way of writing, in the layout table.
    const KIND: u64;
    /// Whether each thread writes, though the kernel takes a block.
    const BY_THREAD: bool;

    /// The elements that a launch of `positions` threads or blocks writes.
    fn covered(positions: u64) -> u64 {
        positions.saturating_mul(Self::COUNT as u64)
    }
}

/// A value that a kernel returns, and that is written in the way `W`.
///
/// The ways are implemented for the types of values, so that rustc reports an unsuitable type once,
/// on the user's line.
///
/// # Safety
/// `write` and `COUNT` have the contracts of [`Return`] and [`Returned`].
#[diagnostic::on_unimplemented(
    message = "a kernel cannot return `{Self}`",
    label = "not an element: device memory may hold any bits, and its type must have one layout on host and device",
    note = "H31: return an integer, a float, an array of them, or a struct that derives it: \
            `#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, cuda_rt::Element)] #[repr(C)]`"
)]
pub unsafe trait ReturnedValue<W>: Sized {
    /// As [`Returned::Element`].
    type Element: Element;
    /// As [`Returned::COUNT`].
    const COUNT: usize;
    /// As [`Returned::KIND`].
    const KIND: u64;
    /// As [`Returned::BY_THREAD`].
    const BY_THREAD: bool;

    /// As [`Return::runs`].
    fn runs(len: usize, place: &Place) -> bool;

    /// As [`Return::write`].
    ///
    /// # Safety
    /// As for [`Return::write`].
    unsafe fn write(self, start: *mut u8, len: usize, place: &Place) -> usize;
}

/// A value of the type `V`, written in the way `W`.
#[derive(Debug)]
pub struct Written<V, W>(PhantomData<(V, W)>);

// SAFETY: `ReturnedValue::write` has the same contract.
unsafe impl<W, V: ReturnedValue<W>> Return for Written<V, W> {
    type Value = V;

    #[inline(always)]
    fn runs(len: usize, place: &Place) -> bool {
        V::runs(len, place)
    }

    #[inline(always)]
    unsafe fn write(start: *mut u8, len: usize, place: &Place, value: V) -> usize {
        // SAFETY: the contract is the same.
        unsafe { value.write(start, len, place) }
    }
}

// SAFETY: RETURNED-1: `ReturnedValue` has the same contract.
unsafe impl<W, V: ReturnedValue<W>> Returned for Written<V, W> {
    type Element = V::Element;
    const COUNT: usize = V::COUNT;
    const KIND: u64 = V::KIND;
    const BY_THREAD: bool = V::BY_THREAD;
}

/// The way in which each thread or block returns one element: the element at its row-major
/// position.
#[derive(Debug)]
pub enum Each {}

// SAFETY: `write` writes the element at the place's position, which `runs` compared with `len`.
// RETURNED-1: positions below the number of places differ (INDEX-1, INDEX-2, BLOCK-1).
unsafe impl<T: Element> ReturnedValue<Each> for T {
    type Element = T;
    const COUNT: usize = 1;
    const KIND: u64 = 1;
    const BY_THREAD: bool = false;

    #[inline(always)]
    fn runs(len: usize, place: &Place) -> bool {
        place.position < len
    }

    #[inline(always)]
    unsafe fn write(self, start: *mut u8, _: usize, place: &Place) -> usize {
        if place.is_writer {
            // SAFETY: the caller says that `runs` holds: the position is below the number of
            // elements at `start`.
            let element = unsafe { start.cast::<T>().add(place.position) };
            // SAFETY: RETURNED-1: no other place has this position. The element may hold nothing,
            // and `write` neither reads nor drops it.
            unsafe { element.write(self) };
        }
        1
    }
}

/// The way in which each thread or block returns `N` elements in a row: the place at position i
/// writes the elements from `N * i` on. The last place may write fewer.
#[derive(Debug)]
pub enum EachChunk {}

// SAFETY: `write` writes the `N` elements of the place's chunk, or the elements of it that lie
// below `len`. RETURNED-1: the chunks of distinct positions do not overlap, and `n` chunks hold the
// first `N * n` elements.
unsafe impl<T: Element, const N: usize> ReturnedValue<EachChunk> for [T; N] {
    type Element = T;
    const COUNT: usize = {
        assert!(N > 0, "a chunk has elements");
        N
    };
    const KIND: u64 = crate::rt::packed(2, N);
    const BY_THREAD: bool = false;

    #[inline(always)]
    fn runs(len: usize, place: &Place) -> bool {
        place.position < len.div_ceil(const { <Self as ReturnedValue<EachChunk>>::COUNT })
    }

    #[inline(always)]
    unsafe fn write(self, start: *mut u8, len: usize, place: &Place) -> usize {
        // The product cannot wrap: the caller says that `runs` holds, so it lies below `len`.
        let first = place.position * N;
        let count = if len - first < N { len - first } else { N };
        if !place.is_writer {
            return count;
        }
        // SAFETY: `first` lies below `len`.
        let chunk = unsafe { start.cast::<T>().add(first) };
        if count == N {
            // SAFETY: `N` elements begin at `chunk`. RETURNED-1: only this place writes them, and
            // nothing reads them.
            unsafe { chunk::write(chunk, self) };
            return N;
        }
        // A loop over `self.into_iter()` keeps the array in local memory.
        for (k, value) in self.iter().enumerate() {
            if k < count {
                // SAFETY: k < count, so the element lies below `len`.
                let element = unsafe { chunk.add(k) };
                // SAFETY: RETURNED-1: only this place writes the element.
                unsafe { element.write(*value) };
            }
        }
        count
    }
}

/// The way in which a block returns one element for each of its threads. Each thread inside the
/// launch's extent writes the element at its row-major position in the launch.
#[derive(Debug)]
pub enum EachThread {}

impl BlockPlace {
    /// The row-major position of the block's thread `local` in the launch, if it lies inside the
    /// extent.
    #[inline(always)]
    fn position(&self, local: [u32; 2]) -> Option<u64> {
        // No sum wraps: a block's number lies below 2^31, and a block has at most 2^10 threads.
        let [x, y] = [0, 1].map(|axis| self.at[axis] as u64 * self.size[axis] as u64 + local[axis] as u64);
        // The position lies below the extent's volume, which fits 64 bits.
        (x < self.extent.x && y < self.extent.y).then(|| y * self.extent.x + x)
    }
}

// SAFETY: `write` compares each position with `len`. RETURNED-1: the positions of the threads
// inside the extent are the numbers below its volume, once each. Every block of the grid runs, and
// the blocks hold every thread of the extent.
unsafe impl<T: Element> ReturnedValue<EachThread> for Private<T> {
    type Element = T;
    const COUNT: usize = 1;
    const KIND: u64 = 3;
    const BY_THREAD: bool = true;

    /// Every thread of a block meets the block's barriers, so all of them run.
    #[inline(always)]
    fn runs(_: usize, _: &Place) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn write(self, start: *mut u8, len: usize, place: &Place) -> usize {
        let Some(block) = &place.block else {
            return 0;
        };
        let mut count = 0;
        self.each_thread(block.size, |local, value| {
            let Some(at) = block.position(local).filter(|at| *at < len as u64) else {
                return;
            };
            // SAFETY: `at` was compared with `len`.
            let element = unsafe { start.cast::<T>().add(at as usize) };
            // SAFETY: RETURNED-1: distinct threads of a launch have distinct positions, and nothing
            // reads the element.
            unsafe { element.write(value) };
            count += 1;
        });
        count
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::rt::{SimulatedLaunch, each_index1};

    /// Elements of `len` that a launch of `threads` threads writes, each with its thread's number.
    fn written<R: Returned<Element = u32>>(
        threads: u64,
        len: usize,
        value: impl Fn(u32) -> R::Value,
    ) -> (Vec<u32>, usize) {
        // The memory is longer than the output, so that a write beyond the output's end shows.
        let mut memory = vec![u32::MAX; len + 8];
        let start = memory.as_mut_ptr().cast::<u8>();
        let count = core::cell::Cell::new(0);
        let extent = Extent {
            x: threads,
            y: 1,
            z: 1,
        };
        // SAFETY: the test makes one launch, and uses its positions only for its own memory.
        let launch = unsafe { SimulatedLaunch::new(extent, [1; 3]) };
        each_index1(&launch, |i| {
            let place = i.place();
            if R::runs(len, &place) {
                // SAFETY: `memory` has `len` elements and outlives the call; `runs` holds.
                let wrote = unsafe { R::write(start, len, &place, value(i.get() as u32)) };
                count.set(count.get() + wrote);
            }
        });
        assert!(memory[len..].iter().all(|value| *value == u32::MAX));
        memory.truncate(len);
        (memory, count.get())
    }

    #[test]
    fn elements_are_written_as_far_as_the_launch_covers_and_none_beyond_the_end() {
        for (threads, len) in [(0, 0), (5, 0), (0, 3), (3, 5), (5, 5), (9, 5)] {
            let (memory, count) = written::<Written<u32, Each>>(threads, len, |at| at);
            let covered = len.min(Written::<u32, Each>::covered(threads) as usize);
            let expected: Vec<u32> = (0..len as u32)
                .map(|at| if (at as usize) < covered { at } else { u32::MAX })
                .collect();
            assert_eq!(
                (memory, count),
                (expected, covered),
                "{threads} threads, {len} elements"
            );
        }
    }

    #[test]
    fn chunks_are_written_as_far_as_the_launch_covers_and_none_beyond_the_end() {
        for (threads, len) in [(0, 0), (2, 0), (1, 3), (1, 4), (2, 7), (2, 9), (3, 9), (7, 9)] {
            let (memory, count) = written::<Written<[u32; 4], EachChunk>>(threads, len, |at| [at; 4]);
            let covered = len.min(Written::<[u32; 4], EachChunk>::covered(threads) as usize);
            let expected: Vec<u32> = (0..len as u32)
                .map(|at| if (at as usize) < covered { at / 4 } else { u32::MAX })
                .collect();
            assert_eq!(
                (memory, count),
                (expected, covered),
                "{threads} threads, {len} elements"
            );
        }
    }

    #[test]
    fn a_position_whose_product_would_wrap_has_no_chunk() {
        // SAFETY: INDEX-1: no launch runs, and only this test holds an index.
        let last = unsafe { crate::Index1::new(u64::MAX) };
        assert!(!Written::<[u8; 4], EachChunk>::runs(usize::MAX, &last.place()));
        assert_eq!(Written::<[u8; 4], EachChunk>::covered(u64::MAX), u64::MAX);
    }
}
