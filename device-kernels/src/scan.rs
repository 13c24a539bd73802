//! Scans of all elements in one launch and one pass over the data, by decoupled look-back
//! ([`LookBack`](device_std::LookBack)).

#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::kernel::{KernelInstance, ReadBy, WriteBy};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_rt::{DeviceSlice, Grid1, Result, Stream, StreamTag};
use device_std::prelude::{Block, BlockUninit, Chunks as _, Element, LookBack, PerTile, kernel};
use device_std::{AlignedChunks, Lane, Max, Min, Operator, PhaseSafe, Private, Sum, Tile, TileValue, unroll};

#[cfg(not(target_arch = "nvptx64"))]
use crate::length_error::{LengthError, Mismatch};

/// Elements of a chunk, which lie side by side.
const CHUNK: usize = 4;
/// Chunks of a thread. A tile has 256 · 4 · 5 elements.
const CHUNKS: usize = 5;

/// Elements of a tile: a block of 256 threads scans one.
#[cfg(not(target_arch = "nvptx64"))]
const TILE: usize = 256 * CHUNK * CHUNKS;

/// The words of `u64` that a scan of `len` elements needs ([`inclusive_scan`], [`exclusive_scan`]).
/// A scan of fewer elements may use the same words.
///
/// ```
/// assert_eq!(device_kernels::scan_words::<u32>(10_000), 3);
/// assert_eq!(device_kernels::scan_words::<f64>(10_000), 5);
/// ```
#[cfg(not(target_arch = "nvptx64"))]
pub const fn scan_words<T: TileValue>(len: usize) -> usize {
    LookBack::words::<T>(len.div_ceil(TILE))
}

/// The prefix sums of `input`, also called its cumulative sums, or another running combination:
/// element i of `output` becomes the combination of the elements 0 to i of `input` by the operator
/// `O`. `O` is the [`Sum`] of `u32`, `i32`, `f32`, `u64` or `f64`, or the [`Min`] or [`Max`] of
/// `u32`, `i32` or `f32`.
///
/// It enqueues one launch of [`inclusive_scan_tiles`] in stream order, and chooses the grid.
/// Nothing is enqueued if there is no element.
///
/// `words` has [`scan_words::<T>(len)`](scan_words) words or more. All of them are 0 before the
/// first launch. Each launch leaves them ready for the next scan, of any length for which they are
/// enough. The host cannot see what the words hold: if other code wrote them, the launch traps, and
/// the device is lost to the process.
///
/// The elements are combined in order, but in groups that differ from run to run: sums of floats
/// may differ in their last bits. Sums of integers wrap.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use device_kernels::{Sum, inclusive_scan, scan_words};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&vec![1_u32; 10_000])?;
/// let mut words = compute.alloc_zeroed(scan_words::<u32>(input.len()))?;
/// let mut output = compute.alloc_zeroed(input.len())?;
/// inclusive_scan::<u32, Sum, _>(&compute, &input, &mut words, &mut output)?;
/// assert!(compute.copy_to_vec(&output)?.into_iter().eq(1..=10_000));
///
/// let error = inclusive_scan::<u32, Sum, _>(&compute, &input[1..], &mut words, &mut output);
/// let message = error.unwrap_err().to_string();
/// assert!(message.contains("the input has 9999 elements, the output 10000: "));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
///
/// # Errors
/// [`Error::Library`](cuda_rt::Error::Library) with a [`LengthError`], if `input` and `output` have
/// other lengths, or if there are fewer words than [`scan_words`] says; those of a launch. Nothing
/// was enqueued.
#[cfg(not(target_arch = "nvptx64"))]
#[allow(
    private_bounds,
    reason = "the bounds of the kernel: it was built for `O` of `T`"
)]
#[track_caller]
pub fn inclusive_scan<T: TileValue + PhaseSafe, O: Operator<T>, S: StreamTag>(
    stream: &Stream<S>,
    input: &DeviceSlice<T, impl ReadBy<S>>,
    words: &mut DeviceSlice<u64, impl WriteBy<S>>,
    output: &mut DeviceSlice<T, impl WriteBy<S>>,
) -> Result<()>
where
    __InstanceOf_inclusive_scan_tiles<T, O>: KernelInstance,
    <__InstanceOf_inclusive_scan_tiles<T, O> as KernelInstance>::Launch:
        __LaunchOf_inclusive_scan_tiles<T, O>,
{
    match grid::<T>("inclusive_scan", input.len(), words.len(), output.len())? {
        Some(grid) => inclusive_scan_tiles::<T, O, S>(stream, grid, input, words, output),
        None => Ok(()),
    }
}

/// As [`inclusive_scan`], of the elements before each element: element i of `output` becomes the
/// combination of the elements 0 to i - 1 of `input`. `O` is the [`Sum`] of `u32`, `i32`, `f32`,
/// `u64` or `f64`. Element 0 becomes the operator's identity: of floats, this is -0.
///
/// It enqueues one launch of [`exclusive_scan_tiles`] in stream order.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use device_kernels::{Sum, exclusive_scan, scan_words};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// // Where each list of a number of lists begins, if they follow each other.
/// let lengths = compute.alloc_from_slice(&[3_u32, 0, 2, 7])?;
/// let mut words = compute.alloc_zeroed(scan_words::<u32>(lengths.len()))?;
/// let mut starts = compute.alloc_zeroed(lengths.len())?;
/// exclusive_scan::<u32, Sum, _>(&compute, &lengths, &mut words, &mut starts)?;
/// assert_eq!(compute.copy_to_vec(&starts)?, [0, 3, 3, 5]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
///
/// # Errors
/// As [`inclusive_scan`].
#[cfg(not(target_arch = "nvptx64"))]
#[allow(
    private_bounds,
    reason = "the bounds of the kernel: it was built for `O` of `T`"
)]
#[track_caller]
pub fn exclusive_scan<T: TileValue + PhaseSafe, O: Operator<T>, S: StreamTag>(
    stream: &Stream<S>,
    input: &DeviceSlice<T, impl ReadBy<S>>,
    words: &mut DeviceSlice<u64, impl WriteBy<S>>,
    output: &mut DeviceSlice<T, impl WriteBy<S>>,
) -> Result<()>
where
    __InstanceOf_exclusive_scan_tiles<T, O>: KernelInstance,
    <__InstanceOf_exclusive_scan_tiles<T, O> as KernelInstance>::Launch:
        __LaunchOf_exclusive_scan_tiles<T, O>,
{
    match grid::<T>("exclusive_scan", input.len(), words.len(), output.len())? {
        Some(grid) => exclusive_scan_tiles::<T, O, S>(stream, grid, input, words, output),
        None => Ok(()),
    }
}

/// The grid of a scan whose lengths fit each other; `None` if there is no element.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn grid<T: TileValue>(
    function: &'static str,
    input: usize,
    words: usize,
    output: usize,
) -> Result<Option<Grid1>> {
    if input != output {
        return Err(LengthError::of(function, Mismatch::Input { input, output }));
    }
    if output == 0 {
        return Ok(None);
    }
    let needed = scan_words::<T>(output);
    if words < needed {
        return Err(LengthError::of(function, Mismatch::Words { words, needed }));
    }
    Ok(Some(Grid1::blocks(output.div_ceil(TILE))))
}

/// The kernel of [`inclusive_scan`], for a grid of the caller's choice.
///
/// A block scans a tile of 5120 elements, so the smallest grid is
/// `Grid1::blocks(len.div_ceil(5120))`. `look_back` has `LookBack::words::<T>(blocks)` words, where
/// `blocks` is the number of blocks of the grid. All of them are 0 before the first launch; each
/// launch leaves them ready for the next one. Traps if there are fewer words, if the words hold
/// something else, or if `input` is shorter than `output`. Elements of `output` beyond the grid are
/// not written.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::{LookBack, Sum, inclusive_scan_tiles};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&vec![1_u32; 10_000])?;
/// let mut words = compute.alloc_zeroed(LookBack::words::<u32>(2))?;
/// let mut output = compute.alloc_zeroed(10_000)?;
/// let grid = Grid1::blocks(2);
/// inclusive_scan_tiles::<u32, Sum, _>(&compute, grid, &input, &mut words, &mut output)?;
/// assert!(compute.copy_to_vec(&output)?.into_iter().eq(1..=10_000));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [
    <u32, Sum>, <i32, Sum>, <f32, Sum>, <u64, Sum>, <f64, Sum>, <u32, Min>, <i32, Min>, <f32, Min>,
    <u32, Max>, <i32, Max>, <f32, Max>,
])]
pub fn inclusive_scan_tiles<T: TileValue + PhaseSafe, O: Operator<T>>(
    mut block: Block,
    mut scratch: BlockUninit<T, 8>,
    mut seen: BlockUninit<[u32; 3], 8>,
    input: &[T],
    look_back: LookBack<u64>,
    output: PerTile<T, 4, 5>,
) {
    scan::<T, O, true>(&mut block, (&mut scratch, &mut seen), input, look_back, &output);
}

/// The kernel of [`exclusive_scan`], for a grid of the caller's choice. The grid, the words and the
/// traps are as for [`inclusive_scan_tiles`].
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::{LookBack, Sum, exclusive_scan_tiles};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let lengths = compute.alloc_from_slice(&[3_u32, 0, 2, 7])?;
/// let mut words = compute.alloc_zeroed(LookBack::words::<u32>(1))?;
/// let mut starts = compute.alloc_zeroed(4)?;
/// let grid = Grid1::blocks(1);
/// exclusive_scan_tiles::<u32, Sum, _>(&compute, grid, &lengths, &mut words, &mut starts)?;
/// assert_eq!(compute.copy_to_vec(&starts)?, [0, 3, 3, 5]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [<u32, Sum>, <i32, Sum>, <f32, Sum>, <u64, Sum>, <f64, Sum>])]
pub fn exclusive_scan_tiles<T: TileValue + PhaseSafe, O: Operator<T>>(
    mut block: Block,
    mut scratch: BlockUninit<T, 8>,
    mut seen: BlockUninit<[u32; 3], 8>,
    input: &[T],
    look_back: LookBack<u64>,
    output: PerTile<T, 4, 5>,
) {
    scan::<T, O, false>(&mut block, (&mut scratch, &mut seen), input, look_back, &output);
}

/// The body of a scan. `room` is shared memory of the block: for the warps of a tile, and for the
/// tiles that it looks back at.
#[inline(always)]
fn scan<'b, T: TileValue + PhaseSafe, O: Operator<T>, const IS_INCLUSIVE: bool>(
    block: &mut Block<'b>,
    (scratch, seen): (&mut BlockUninit<'_, T, 8>, &mut BlockUninit<'_, [u32; 3], 8>),
    input: &[T],
    look_back: LookBack<'b, u64>,
    output: &PerTile<'_, T, CHUNK, CHUNKS>,
) {
    let source = Source::of(input, output.len());
    let (before, (values, offset), tile) = look_back.scan::<O, T, _, _, 8>(block, seen, |block, tile| {
        in_tile::<T, O, IS_INCLUSIVE>(block, scratch, source, tile)
    });
    block.threads(|thread| {
        let (mut values, offset) = (values.get(thread), O::combine(before, offset.get(thread)));
        unroll!(for k in 0..5 {
            values[k] = values[k].map(|value: T| O::combine(offset, value));
        });
        output.set(&tile, thread, values);
    });
}

/// The elements of a thread.
type Chunks<T> = [[T; CHUNK]; CHUNKS];

/// Scans a tile. It gives the combination of all of its elements, each thread's chunks, scanned
/// with the elements of their warp before them, and the combination of the warps before.
#[inline(always)]
fn in_tile<T: TileValue + PhaseSafe, O: Operator<T>, const IS_INCLUSIVE: bool>(
    block: &mut Block,
    scratch: &mut BlockUninit<'_, T, 8>,
    source: Source<'_, T>,
    tile: &Tile<'_>,
) -> (T, (Private<Chunks<T>>, Private<T>)) {
    let mut values = block.map(|lane| source.chunks(tile, lane, O::IDENTITY));
    let mut of_warp = block.map(|_| O::IDENTITY);
    // Chunk k of all lanes of a warp precedes chunk k + 1 of any lane.
    unroll!(for k in 0..5 {
        let of_chunk = block.map(|lane| {
            let [a, b, c, d] = values.get(lane)[k];
            O::combine(O::combine(a, b), O::combine(c, d))
        });
        let up_to = block.warp_inclusive_scan::<O, T>(&of_chunk);
        let before = block.shuffle_up(&up_to, 1);
        let of_chunks = block.shuffle_from(&up_to, 31);
        block.update(&mut values, |lane, values| {
            // A shuffle leaves the first lane its own value.
            let before = if lane.lane() == 0 {
                O::IDENTITY
            } else {
                before.get(lane)
            };
            let before = O::combine(of_warp.get(lane), before);
            let [a, b, c, d] = values[k];
            let (a, ab, abc) = (
                O::combine(before, a),
                O::combine(a, b),
                O::combine(O::combine(a, b), c),
            );
            let (ab, abc) = (O::combine(before, ab), O::combine(before, abc));
            values[k] = if IS_INCLUSIVE {
                [a, ab, abc, O::combine(abc, d)]
            } else {
                [before, a, ab, abc]
            };
        });
        block.update(&mut of_warp, |lane, of_warp| {
            *of_warp = O::combine(*of_warp, of_chunks.get(lane));
        });
    });
    // In the last lane, so that the scan of the block gives the other lanes nothing of their warp.
    block.update(&mut of_warp, |lane, of_warp| {
        if lane.lane() != 31 {
            *of_warp = O::IDENTITY;
        }
    });
    let (of_warps_before, of_tile) = block.exclusive_scan::<O, T, 8>(scratch, &of_warp);
    (of_tile, (values, of_warps_before))
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
        // The chunks of the warp follow each other.
        let first = position(0) / CHUNK - lane.lane();
        let of_warp = if self.is_aligned {
            self.aligned.part(first, CHUNKS * 32)
        } else {
            None
        };
        if let Some(of_warp) = of_warp {
            unroll!(for k in 0..5 {
                values[k] = of_warp.get(k * 32 + lane.lane()).unwrap_or([fill; CHUNK]);
            });
        } else {
            unroll!(for k in 0..5 {
                let element = |q: usize| self.all.get(position(k) + q).copied().unwrap_or(fill);
                values[k] = [element(0), element(1), element(2), element(3)];
            });
        }
        values
    }
}
