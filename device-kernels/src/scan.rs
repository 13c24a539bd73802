//! Scans of all elements in one launch and one pass over the data, by decoupled look-back
//! ([`LookBack`](device_std::LookBack)).

use device_std::prelude::{Block, BlockUninit, Chunks as _, Element, LookBack, PerTile, kernel};
use device_std::{
    AlignedChunks, Each, Lane, Max, Min, Operator, PhaseSafe, Private, Sum, Tile, TileValue, unroll,
};

/// Elements of a chunk, which lie side by side.
const CHUNK: usize = 4;
/// Chunks of a thread. A tile has 256 · 4 · 6 elements.
const CHUNKS: usize = 6;

/// Element i of `output` becomes the combination of the elements 0 to i of `input` by the operator
/// `O`: the [`Sum`](device_std::Sum) of `u32`, `i32`, `f32`, `u64` or `f64`, or the
/// [`Min`](device_std::Min) or [`Max`](device_std::Max) of `u32`, `i32` or `f32`.
///
/// A block scans a tile of 6144 elements, so a grid is `Grid1::covering(len.div_ceil(24))`, or more.
/// `look_back` has `LookBack::words::<T>(blocks)` words for as many blocks as there are tiles, all
/// of them 0 before the first launch; each launch leaves them ready for the next one. Traps if there
/// are fewer words, if the words hold something else, or if `input` is shorter than `output`.
/// Elements of `output` beyond the grid are not written.
///
/// The elements are combined in order, but in groups that differ from run to run: sums of floats may
/// differ in their last bits. Sums of integers wrap.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::inclusive_scan;
/// use device_std::{LookBack, Sum};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let len = 10_000_usize;
/// let input = compute.alloc_from_slice(&vec![1_u32; len])?;
/// let mut words = compute.alloc_zeroed(LookBack::words::<u32>(len.div_ceil(6144)))?;
/// let mut output = compute.alloc_zeroed(len)?;
/// let grid = Grid1::covering(len.div_ceil(24));
/// inclusive_scan::<u32, Sum, _>(&compute, grid, &input, &mut words, &mut output)?;
/// assert!(compute.copy_to_vec(&output)?.into_iter().eq(1..=10_000));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [
    <u32, Sum>, <i32, Sum>, <f32, Sum>, <u64, Sum>, <f64, Sum>, <u32, Min>, <i32, Min>, <f32, Min>,
    <u32, Max>, <i32, Max>, <f32, Max>,
])]
pub fn inclusive_scan<T: TileValue + PhaseSafe, O: Operator<T>>(
    mut block: Block,
    mut scratch: BlockUninit<T, 8>,
    mut seen: BlockUninit<[u32; 3], 8>,
    input: &[T],
    look_back: LookBack<u64>,
    output: PerTile<T, 4, 6>,
) {
    let source = Source::of(input, output.len());
    let (before, (values, offsets), tile) =
        look_back.scan::<O, T, _, _, 8>(&mut block, &mut seen, |block, tile| {
            in_tile::<T, O>(block, &mut scratch, source, tile)
        });
    block.threads(|thread| {
        let (mut values, offsets) = (values.get(thread), offsets.get(thread));
        unroll!(for k in 0..6 {
            let offset = O::combine(before, offsets[k]);
            let [a, b, c, d] = values[k];
            let up_to = |value| O::combine(offset, value);
            values[k] = [up_to(a), up_to(b), up_to(c), up_to(d)];
        });
        output.set(&tile, thread, values);
    });
}

/// Element i of `output` becomes the combination of the elements 0 to i - 1 of `input` by the
/// operator `O`, the [`Sum`](device_std::Sum) of `u32`, `i32`, `f32`, `u64` or `f64`. Element 0
/// becomes the operator's identity: of floats, this is -0.
///
/// The rest is as for [`inclusive_scan`].
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::exclusive_scan;
/// use device_std::{LookBack, Sum};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// // Where each list of a number of lists begins, if they follow each other.
/// let lengths = compute.alloc_from_slice(&[3_u32, 0, 2, 7])?;
/// let mut words = compute.alloc_zeroed(LookBack::words::<u32>(1))?;
/// let mut starts = compute.alloc_zeroed(4)?;
/// exclusive_scan::<u32, Sum, _>(&compute, Grid1::covering(1), &lengths, &mut words, &mut starts)?;
/// assert_eq!(compute.copy_to_vec(&starts)?, [0, 3, 3, 5]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [<u32, Sum>, <i32, Sum>, <f32, Sum>, <u64, Sum>, <f64, Sum>])]
pub fn exclusive_scan<T: TileValue + PhaseSafe, O: Operator<T>>(
    mut block: Block,
    mut scratch: BlockUninit<T, 8>,
    mut seen: BlockUninit<[u32; 3], 8>,
    input: &[T],
    look_back: LookBack<u64>,
    output: PerTile<T, 4, 6>,
) {
    let source = Source::of(input, output.len());
    let (before, (values, offsets), tile) =
        look_back.scan::<O, T, _, _, 8>(&mut block, &mut seen, |block, tile| {
            in_tile::<T, O>(block, &mut scratch, source, tile)
        });
    block.threads(|thread| {
        let (mut values, offsets) = (values.get(thread), offsets.get(thread));
        unroll!(for k in 0..6 {
            let offset = O::combine(before, offsets[k]);
            let [a, b, c, _] = values[k];
            let up_to = |value| O::combine(offset, value);
            values[k] = [offset, up_to(a), up_to(b), up_to(c)];
        });
        output.set(&tile, thread, values);
    });
}

/// The elements of a thread.
type Chunks<T> = [[T; CHUNK]; CHUNKS];

/// Scans a tile: the combination of all of its elements, each thread's chunks, scanned by
/// themselves, and for each chunk the combination of the tile's elements before it.
#[inline(always)]
fn in_tile<T: TileValue + PhaseSafe, O: Operator<T>>(
    block: &mut Block,
    scratch: &mut BlockUninit<'_, T, 8>,
    source: Source<'_, T>,
    tile: &Tile<'_>,
) -> (T, (Private<Chunks<T>>, Private<[T; CHUNKS]>)) {
    let values = block.map(|lane| {
        let mut chunks: Chunks<T> = source.chunks(tile, lane, O::IDENTITY);
        unroll!(for k in 0..6 {
            let [a, b, c, d] = chunks[k];
            let ab = O::combine(a, b);
            let abc = O::combine(ab, c);
            chunks[k] = [a, ab, abc, O::combine(abc, d)];
        });
        chunks
    });
    // Chunk k of all lanes of a warp precedes chunk k + 1 of any lane.
    let of_chunks = block.map(|lane| values.get(lane).map(|chunk: [T; CHUNK]| chunk[CHUNK - 1]));
    let up_to = block.warp_inclusive_scan::<Each<O>, [T; CHUNKS]>(&of_chunks);
    let before = block.shuffle_up(&up_to, 1);
    let of_warp = block.shuffle_from(&up_to, 31);
    let mut offsets = block.map(|lane| {
        let (before, of_warp) = (before.get(lane), of_warp.get(lane));
        let mut earlier = O::IDENTITY;
        let mut offsets = [O::IDENTITY; CHUNKS];
        unroll!(for k in 0..6 {
            // A shuffle leaves the first lane its own value.
            offsets[k] = if lane.lane() == 0 {
                earlier
            } else {
                O::combine(earlier, before[k])
            };
            earlier = O::combine(earlier, of_warp[k]);
        });
        offsets
    });
    // In the last lane, so that the scan of the block gives the other lanes nothing of their warp.
    let of_warp = block.map(|lane| {
        let (of_warp, mut all) = (of_warp.get(lane), O::IDENTITY);
        unroll!(for k in 0..6 {
            all = O::combine(all, of_warp[k]);
        });
        if lane.lane() == 31 { all } else { O::IDENTITY }
    });
    let (of_warps_before, of_tile) = block.exclusive_scan::<O, T, 8>(scratch, &of_warp);
    block.update(&mut offsets, |lane, offsets| {
        unroll!(for k in 0..6 {
            offsets[k] = O::combine(of_warps_before.get(lane), offsets[k]);
        });
    });
    (of_tile, (values, offsets))
}

/// An input, as threads read it.
#[derive(Clone, Copy)]
struct Source<'a, T> {
    all: &'a [T],
    aligned: AlignedChunks<'a, T, CHUNK>,
    is_aligned: bool,
}

impl<'a, T: Element> Source<'a, T> {
    /// An input of an output of `written` elements.
    #[inline(always)]
    fn of(all: &'a [T], written: usize) -> Self {
        assert!(all.len() >= written, "the input is shorter than the output");
        let (before, aligned, _) = all.aligned_chunks::<CHUNK>();
        Self {
            all,
            aligned,
            is_aligned: before.is_empty(),
        }
    }

    /// The elements of a thread, and `fill` beyond the end.
    #[inline(always)]
    fn chunks(&self, tile: &Tile<'_>, lane: &Lane<'_>, fill: T) -> Chunks<T> {
        let position = |k: usize| tile.position::<CHUNK, CHUNKS>(lane, k);
        let mut values = [[fill; CHUNK]; CHUNKS];
        if self.is_aligned && position(CHUNKS - 1) + CHUNK <= self.all.len() {
            unroll!(for k in 0..6 {
                values[k] = self.aligned.get(position(k) / CHUNK).unwrap_or([fill; CHUNK]);
            });
        } else {
            unroll!(for k in 0..6 {
                let element = |q: usize| self.all.get(position(k) + q).copied().unwrap_or(fill);
                values[k] = [element(0), element(1), element(2), element(3)];
            });
        }
        values
    }
}
