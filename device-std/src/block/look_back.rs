//! Scans over all blocks of a launch, in one pass over the data: decoupled look-back, after D.
//! Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (NVIDIA
//! Technical Report NVR-2016-002, 2016).
//!
//! Each block takes a tile of the data, by a ticket. It combines the tile's elements and publishes
//! the result, the tile's aggregate. Then it looks back at the tiles before its own: it combines
//! their aggregates, from its own tile backwards, up to a tile that has published its prefix, the
//! combination of all elements from the first on. With these, the block publishes the prefix of its
//! own tile.
//!
//! # Invariants
//! - LOOK-BACK-1. `ptr` is valid for reads and writes of `len` words, and only this launch uses
//!   them. All access is atomic.
//! - LOOK-BACK-2. The tiles of a launch's blocks differ, whatever the words held before. A kernel
//!   has at most one [`LookBack`] (`rt::one_look_back`), and taking a ticket consumes it, so each
//!   block takes one ticket at most. Tickets count up in the first word; a ticket that is not below
//!   the number of blocks traps. Only the block with the last ticket below that number lets the
//!   word start again at 0. Then fewer blocks are left than there are tickets below the first one.
//! - LOOK-BACK-3. A word of a tile holds half of a value, the generation of the launch, and what
//!   the value is: an aggregate or a prefix. The word is written at once, by the tile's block only,
//!   once with each meaning. So words that agree in generation and meaning hold the halves of one
//!   value. No order of memory accesses is needed: what is published lies in the word that says so.
//! - LOOK-BACK-4. A block that has taken a ticket publishes its tile's prefix, traps, or runs for
//!   ever in the kernel's own closure. It waits for tiles with smaller tickets only, which are of
//!   blocks that run already.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use super::operator::Operator;
use super::phases::Block;
use super::shared::BlockUninit;
use super::shuffle::ShuffleElement;
use super::thread::{Dimensions, Lane, WARP};
use crate::atomic::{AtomicElement, DeviceScope};

/// What the blocks of a launch tell each other during a scan over all blocks
/// ([`scan`](Self::scan)), in words of device memory: `LookBack<u64>`.
///
/// The host passes [`words`](Self::words) words, all of them 0 before the first launch. Each launch
/// leaves them ready for the next one, also for another kernel and another number of blocks. Pass
/// the same memory in each launch, and use it for nothing else.
///
/// A kernel has one `LookBack` at most. Its blocks take tiles in the order in which they start to
/// run, so a tile that waits only waits for tiles whose blocks run.
///
/// ```
/// # use device_std::prelude::*;
/// use device_std::{LookBack, PerTile, Sum};
///
/// /// The sum of all elements up to each element.
/// fn sums(
///     mut block: Block,
///     mut scratch: BlockUninit<u32, 8>,
///     mut seen: BlockUninit<[u32; 3], 8>,
///     input: &[u32],
///     look_back: LookBack<u64>,
///     output: PerTile<u32, 1, 1>,
/// ) {
///     let (before, up_to, tile) =
///         look_back.scan::<Sum, u32, _, _, 8>(&mut block, &mut seen, |block, tile| {
///             let value = |at| input.get(at).copied().unwrap_or(0);
///             let values = block.map(|lane| value(tile.position::<1, 1>(lane, 0)));
///             let (up_to, total) = block.inclusive_scan::<Sum, _, 8>(&mut scratch, &values);
///             (total, up_to)
///         });
///     block.threads(|thread| {
///         let up_to = before.wrapping_add(up_to.get(thread));
///         output.set(&tile, thread, [[up_to]]);
///     });
/// }
/// ```
///
/// # Hazards prevented
/// [H32](crate::hazards#h32) (two blocks write one tile; a block reads what another has not
/// published).
///
/// # What is not prevented
/// The words may hold something else before a launch, because the host wrote it, or because a block
/// of an earlier launch forgot its value without [`scan`](Self::scan). The launch then traps, or
/// gives wrong results; each tile still has one owner. A block that drops its value instead traps
/// at once. A block that waits in vain gives up after some minutes.
///
/// ```standalone_crate
/// use device_std::prelude::*;
/// use device_std::{LookBack, Max, PerTile};
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// /// The largest element before each element.
/// #[kernel(block = 64)]
/// fn largest_before(
///     mut block: Block,
///     mut scratch: BlockUninit<u32, 2>,
///     mut seen: BlockUninit<[u32; 3], 2>,
///     input: &[u32],
///     look_back: LookBack<u64>,
///     output: PerTile<u32, 1, 1>,
/// ) {
///     assert!(!look_back.is_empty() && look_back.len() > block.blocks_x());
///     let (before, in_tile, tile) =
///         look_back.scan::<Max, u32, _, _, 2>(&mut block, &mut seen, |block, tile| {
///             assert!(tile.number() < block.blocks_x());
///             let value = |at| input.get(at).copied().unwrap_or(0);
///             let values = block.map(|lane| value(tile.position::<1, 1>(lane, 0)));
///             let (in_tile, largest) = block.exclusive_scan::<Max, _, 2>(&mut scratch, &values);
///             (largest, in_tile)
///         });
///     block.threads(|thread| output.set(&tile, thread, [[before.max(in_tile.get(thread))]]));
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let input = compute.alloc_from_slice(&(0..200).map(|at| at % 70).collect::<Vec<u32>>())?;
/// let mut words = compute.alloc_zeroed(LookBack::words::<u32>(200_usize.div_ceil(64)))?;
/// let mut output = compute.alloc_zeroed::<u32>(200)?;
/// let grid = cuda_rt::Grid1::covering(200);
/// largest_before(&compute, grid, &input, &mut words, &mut output)?;
/// largest_before(&compute, grid, &input, &mut words, &mut output)?; // the words are ready again
/// let output = compute.copy_to_vec(&output)?;
/// assert_eq!((output[0], output[64], output[65], output[199]), (0, 63, 64, 69));
/// # Ok(())
/// # })?
/// # }
/// ```
#[derive(Debug)]
pub struct LookBack<'k, W> {
    ptr: *mut W,
    len: usize,
    _buffer: PhantomData<&'k mut [W]>,
}

// A block that takes no tile leaves the count of tickets wrong for later launches, which cannot see
// it.
impl<W> Drop for LookBack<'_, W> {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(not(target_arch = "nvptx64"))]
        if std::thread::panicking() {
            return;
        }
        panic!("a block ends without `LookBack::scan`");
    }
}

/// A tile of a launch's data, of which a block is the only owner: from [`LookBack::scan`].
#[derive(Debug)]
pub struct Tile<'k> {
    number: u32,
    /// Threads of a block: whole warps.
    threads: u32,
    _brand: PhantomData<fn(&'k ()) -> &'k ()>,
}

mod sealed {
    pub trait Sealed {}
}

/// A value that tiles publish ([`LookBack::scan`]): a number of 32 or 64 bits, or two numbers of 32
/// bits.
pub trait TileValue: ShuffleElement + sealed::Sealed {
    /// The words of a tile.
    #[doc(hidden)]
    const WORDS: usize;
    #[doc(hidden)]
    fn halves(self) -> [u32; 2];
    #[doc(hidden)]
    fn of_halves(halves: [u32; 2]) -> Self;
}

macro_rules! values {
    ($($type:ty = $words:literal, |$value:ident| $halves:expr, |$parts:ident| $whole:expr;)*) => { $(
        impl sealed::Sealed for $type {}
        impl TileValue for $type {
            const WORDS: usize = $words;
            #[inline(always)]
            fn halves(self) -> [u32; 2] {
                let $value = self;
                $halves
            }
            #[inline(always)]
            fn of_halves($parts: [u32; 2]) -> Self {
                $whole
            }
        }
    )* };
}
values! {
    u32 = 1, |value| [value, 0], |halves| halves[0];
    i32 = 1, |value| [value as u32, 0], |halves| halves[0] as i32;
    f32 = 1, |value| [value.to_bits(), 0], |halves| f32::from_bits(halves[0]);
    u64 = 2, |value| [value as u32, (value >> 32) as u32], |halves| u64::from(halves[0]) | u64::from(halves[1]) << 32;
    i64 = 2, |value| (value as u64).halves(), |halves| u64::of_halves(halves) as i64;
    f64 = 2, |value| value.to_bits().halves(), |halves| f64::from_bits(u64::of_halves(halves));
    [u32; 2] = 2, |value| value, |halves| halves;
    [i32; 2] = 2, |value| value.map(|half| half as u32), |halves| halves.map(|half| half as i32);
    [f32; 2] = 2, |value| value.map(f32::to_bits), |halves| halves.map(f32::from_bits);
}

/// The bits of a generation. A word of a tile has them above the meaning, and the meaning above the
/// half of the value.
const GENERATION: u32 = (1 << 30) - 1;
const AGGREGATE: u64 = 1;
const PREFIX: u64 = 2;

/// Words that a launch clears, of tiles that it has not.
const CLEARED: usize = 256;

/// How often a thread asks whether a tile is published, before it takes the words for wrong. On the
/// simulated device, blocks run one after the other, in the order of their tickets.
const ASKS: u32 = if cfg!(target_arch = "nvptx64") { 1 << 30 } else { 1 };

#[inline(always)]
fn word(generation: u32, meaning: u64, half: u32) -> u64 {
    u64::from(generation) << 34 | meaning << 32 | u64::from(half)
}

/// Combines what tiles have published, as two halves of a value and whether it is a prefix. What
/// lies before a prefix does not count.
enum FromPrefix<O, T> {
    #[allow(dead_code, reason = "a type without values")]
    Never(PhantomData<(O, T)>, core::convert::Infallible),
}

impl<T: TileValue, O: Operator<T>> Operator<[u32; 3]> for FromPrefix<O, T>
where
    Self: 'static,
{
    const IDENTITY: [u32; 3] = [0, 0, 2];

    #[inline(always)]
    fn combine(left: [u32; 3], right: [u32; 3]) -> [u32; 3] {
        // The identity has a meaning of its own, because no constant holds the halves of the
        // operator's identity.
        if right[2] == 2 {
            left
        } else if right[2] == 1 || left[2] == 2 {
            right
        } else {
            let combined = O::combine(
                T::of_halves([left[0], left[1]]),
                T::of_halves([right[0], right[1]]),
            );
            let [low, high] = combined.halves();
            [low, high, left[2]]
        }
    }
}

impl LookBack<'_, u64> {
    /// The words that a launch needs with this many blocks, if tiles publish values of `T`.
    pub const fn words<T: TileValue>(blocks: usize) -> usize {
        1 + blocks * T::WORDS
    }
}

impl LookBack<'_, u64> {
    /// # Safety
    /// LOOK-BACK-1.
    #[inline(always)]
    pub(crate) unsafe fn new(ptr: *mut u64, len: usize) -> Self {
        Self {
            ptr,
            len,
            _buffer: PhantomData,
        }
    }

    /// The number of words.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no word.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes a tile, and gives the combination of all tiles before it.
    ///
    /// `f` combines the elements of the tile, and may return something else with the result. The
    /// call returns (the combination of the elements of all tiles before this one, what else `f`
    /// returned, the tile). For the first tile, the combination is the operator's identity. All
    /// threads agree on it.
    ///
    /// `scratch` has room for one element for each warp, and can be used again at once. The call
    /// has four barriers, and two more for each 256 tiles (the block's size) at which it looks.
    ///
    /// The operator combines neighbours in an order that depends on which tiles are published when
    /// others look. It should be associative: sums of floats may differ in their last bits from run
    /// to run.
    ///
    /// # Panics
    /// If there are fewer words than [`words`](Self::words), if they were not 0 before the first
    /// launch, or if the block is not made of whole warps or has more than `N` of them.
    #[inline(always)]
    pub fn scan<'b, O: Operator<T>, T: TileValue, D: Dimensions, R, const N: usize>(
        self,
        block: &mut Block<'b, D>,
        scratch: &mut BlockUninit<'_, [u32; 3], N>,
        f: impl FnOnce(&mut Block<'b, D>, &Tile<'b>) -> (T, R),
    ) -> (T, R, Tile<'b>) {
        // The block takes its tile, so the drop has nothing to say.
        let words = ManuallyDrop::new(self);
        block.assert_whole_warps();
        let blocks = block.count_of_blocks();
        assert!(
            blocks <= u64::from(u32::MAX) && (words.len as u64).saturating_sub(1) / T::WORDS as u64 >= blocks,
            "a `LookBack` has fewer words than the launch needs"
        );
        let (number, generation) = words.ticket(block, scratch, blocks as u32, blocks as usize * T::WORDS);
        let tile = Tile {
            number,
            threads: block.size() as u32,
            _brand: PhantomData,
        };
        let (aggregate, rest) = f(block, &tile);
        let mut before = FromPrefix::<O, T>::IDENTITY;
        if number > 0 {
            words.publish(block, generation, number, AGGREGATE, aggregate);
            let size = block.size() as u32;
            let mut end = number;
            loop {
                // Thread i looks at the tile that is i behind the window's first one.
                let seen = block.collect(|thread| {
                    let distance = size - thread.index() as u32;
                    if distance <= end {
                        words.published::<T>(generation, end - distance)
                    } else {
                        FromPrefix::<O, T>::IDENTITY
                    }
                });
                block.end_of_phase();
                let window = block.reduce::<FromPrefix<O, T>, [u32; 3], N>(scratch, &seen);
                before = FromPrefix::<O, T>::combine(window, before);
                if window[2] == 1 || end <= size {
                    break;
                }
                end -= size;
            }
        }
        let before = if before[2] == 2 {
            O::IDENTITY
        } else {
            T::of_halves([before[0], before[1]])
        };
        let prefix = if number > 0 {
            O::combine(before, aggregate)
        } else {
            aggregate
        };
        words.publish(block, generation, number, PREFIX, prefix);
        (before, rest, tile)
    }

    /// The block's ticket, and the launch's generation.
    #[inline(always)]
    fn ticket<D: Dimensions, const N: usize>(
        &self,
        block: &mut Block<'_, D>,
        scratch: &mut BlockUninit<'_, [u32; 3], N>,
        blocks: u32,
        in_use: usize,
    ) -> (u32, u32) {
        scratch.open_as_scratch();
        block.run(|thread| {
            if thread.index() == 0 {
                // SAFETY: LOOK-BACK-1: `scan` saw that there is a word.
                let taken = unsafe { u64::fetch_add::<DeviceScope>(self.ptr, 1) };
                // SAFETY: the first thread alone writes, and nothing reads before the barrier.
                unsafe { scratch.write(0, [taken as u32, (taken >> 32) as u32, 0]) };
            }
        });
        block.barrier();
        // SAFETY: the element was written before the barrier, and nobody writes before the next.
        let [number, generation, _] = unsafe { scratch.read(0) };
        block.barrier();
        assert!(
            number < blocks,
            "the words of a `LookBack` were not 0, or a block of an earlier launch took no tile"
        );
        let generation = generation & GENERATION;
        block.run(|thread| {
            // The launch has given its last ticket: LOOK-BACK-2.
            if number == blocks - 1 && thread.index() == 0 {
                let next = u64::from(generation.wrapping_add(1) & GENERATION) << 32;
                // SAFETY: LOOK-BACK-1: `scan` saw that there is a word.
                unsafe { u64::store::<DeviceScope>(self.ptr, next) };
            }
            // Generations come again after 2^30 launches. Before, each word that no launch has used
            // since is cleared at least once: there are two generations for each word.
            let mut at = thread.index();
            while number == 0 && at < CLEARED {
                let of_tiles = (generation & (GENERATION >> 1)) as usize * CLEARED + at;
                if of_tiles >= in_use && of_tiles < self.len - 1 {
                    // SAFETY: LOOK-BACK-1: 1 + of_tiles < len.
                    let word = unsafe { self.ptr.add(1 + of_tiles) };
                    // SAFETY: LOOK-BACK-1, and the word belongs to no tile of this launch.
                    unsafe { u64::store::<DeviceScope>(word, 0) };
                }
                at += block.size();
            }
        });
        block.end_of_phase();
        (number, generation)
    }

    /// Writes the words of a tile, in the block's first thread.
    #[inline(always)]
    fn publish<T: TileValue, D: Dimensions>(
        &self,
        block: &mut Block<'_, D>,
        generation: u32,
        tile: u32,
        meaning: u64,
        value: T,
    ) {
        block.run(|thread| {
            if thread.index() == 0 {
                let store = |at, half| {
                    let word = word(generation, meaning, half);
                    // SAFETY: LOOK-BACK-1: `of_tile` names a word.
                    unsafe { u64::store::<DeviceScope>(self.of_tile::<T>(tile, at), word) };
                };
                let [low, high] = value.halves();
                store(0, low);
                if T::WORDS == 2 {
                    store(1, high);
                }
            }
        });
        block.end_of_phase();
    }

    /// The value of a tile, as soon as it is published, and whether it is a prefix.
    #[inline(always)]
    fn published<T: TileValue>(&self, generation: u32, tile: u32) -> [u32; 3] {
        let mut asks = ASKS;
        loop {
            // SAFETY: LOOK-BACK-1: `of_tile` names a word.
            let load = |at| unsafe { u64::load::<DeviceScope>(self.of_tile::<T>(tile, at)) };
            let low = load(0);
            let high = if T::WORDS == 2 { load(1) } else { low };
            let (about, meaning) = (low >> 32, low >> 32 & 3);
            if about == high >> 32
                && about >> 2 == u64::from(generation)
                && (meaning == AGGREGATE || meaning == PREFIX)
            {
                // LOOK-BACK-3: the halves of one value.
                let high = if T::WORDS == 2 { high as u32 } else { 0 };
                return [low as u32, high, u32::from(meaning == PREFIX)];
            }
            asks -= 1;
            assert!(
                asks > 0,
                "a tile waits for a tile that no block has: the words of a `LookBack` were not 0"
            );
        }
    }

    /// Word `at` of a tile of this launch.
    #[inline(always)]
    fn of_tile<T: TileValue>(&self, tile: u32, at: usize) -> *mut u64 {
        // `scan` saw that there are words for each tile of the launch.
        self.ptr.wrapping_add(1 + tile as usize * T::WORDS + at)
    }
}

impl Tile<'_> {
    /// The tile's number: tiles follow each other in the data as their numbers do.
    #[inline(always)]
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// The position in the data of the first element of the thread's chunk `k`, if each thread of
    /// the block has `K` chunks of `N` elements. The elements of a warp follow each other: first
    /// chunk 0 of each of its lanes, then chunk 1, and so on. The data may end before it.
    ///
    /// # Panics
    /// If `k` is not below `K`.
    #[inline(always)]
    pub fn position<const N: usize, const K: usize>(
        &self,
        lane: &Lane<'_, impl Dimensions>,
        k: usize,
    ) -> usize {
        const {
            assert!(
                N >= 1 && N <= 64 && K >= 1 && K <= 1024,
                "a thread has 1 to 1024 chunks of 1 to 64 elements"
            )
        };
        assert!(k < K, "a thread has no such chunk");
        // No product wraps: there are 2^32 tiles at most, of 2^10 threads with 2^16 elements each.
        // Distinct (tile, warp, k, lane) have distinct chunks: warp < threads / 32, k < K and lane
        // < 32. The index of each thread lies below `threads`.
        let warps = self.threads as usize / WARP;
        let warp = self.number as usize * warps + lane.warp();
        ((warp * K + k) * WARP + lane.lane()) * N
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests;
