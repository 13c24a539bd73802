//! Sums of blocks, after "Faster Parallel Reductions on Kepler" (J. Luitjens, NVIDIA, 2014):
//! shuffles within a warp, shared memory between warps.

use device_std::prelude::*;
use device_std::{AtomicElement, Max, Min, Operator, PhaseSafe, ShuffleElement, Sum, fence};

/// Threads of a block; each thread takes one element.
const THREADS: usize = 256;
const WARPS: usize = THREADS / 32;

/// `sums[b]` is the sum of elements 256 b to 256 b + 255 of `input`. Elements beyond the end of
/// `input` count as 0.
///
/// The grid covers the input's length. `sums` has one element for each 256 elements of `input`,
/// rounded up. Traps if `sums` is shorter. The values are added as a tree: the result is equal in
/// every run, but differs from a plain loop's.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::block_sum;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[1.0; 300])?;
/// let mut sums = compute.alloc_zeroed(300_usize.div_ceil(256))?;
/// block_sum(&compute, Grid1::covering(300), &input, &mut sums)?;
/// assert_eq!(compute.copy_to_vec(&sums)?, [256.0, 44.0]);
/// println!("{}", gpu.max_active_blocks::<device_kernels::BlockSum>(256)?); // its handle
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, handle = BlockSum)]
pub fn block_sum(mut block: Block, partial: BlockUninit<f32, 8>, input: &[f32], mut sums: PerBlock<f32>) {
    let values = block.map(|lane| input.get(lane.position()).copied().unwrap_or(0.0));
    let of_warp = sum_lanes(&mut block, values, 32);
    let partial = partial.init_per_warp(&mut block, |thread| of_warp.get(thread));
    let partial = partial.view();
    let values = block.map_shared(|thread| partial.slice(thread).get(thread.index()).copied().unwrap_or(0.0));
    let total = sum_lanes(&mut block, values, WARPS);
    sums.set_from_first(&block, &total);
}

/// The first lane of each warp gets the sum of its first `lanes` lanes, a power of two.
#[inline(always)]
fn sum_lanes(
    block: &mut Block,
    mut values: device_std::Private<f32>,
    lanes: usize,
) -> device_std::Private<f32> {
    let mut distance = lanes / 2;
    while distance > 0 {
        let others = block.shuffle_down(&values, distance);
        block.update(&mut values, |lane, value| *value += others.get(lane));
        distance /= 2;
    }
    values
}

/// Elements that a thread of [`reduce`] loads before it combines any: four chunks of 16 bytes, of
/// elements of 4 bytes.
const IN_FLIGHT: usize = 4;

/// Combines all elements of `input` by the operator `O`, in one launch, and writes the result into
/// `result[0]`: the [`Sum`](device_std::Sum), [`Min`](device_std::Min) or
/// [`Max`](device_std::Max) of `f32`, `u32` or `i32`, or the `Sum` of `f64`, `u64` or `i64`. Of no
/// elements, the result is the operator's identity.
///
/// Each block combines a share, and writes it into `partials`; the block that is last to do so
/// combines the partial results. No block waits for another. `partials` has at least one element
/// for each block, and `finished` one, which is 0 before the launch, and 0 again after it. Traps if
/// one of the three is too short.
///
/// The grid may have any number of blocks: `Grid1::blocks(8 * multiprocessors)` fills the GPU. The
/// elements are combined as a tree, in an order that the number of blocks decides: the result is
/// equal in every run with as many blocks, but that of floats differs from a plain loop's.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::reduce;
/// use device_std::{Max, Sum};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&(0..5000).collect::<Vec<u32>>())?;
/// let mut partials = compute.alloc_zeroed(2)?;
/// let mut finished = compute.alloc_zeroed(1)?;
/// let mut result = compute.alloc_zeroed(2)?;
/// let (blocks, (sum, max)) = (Grid1::blocks(2), result.split_at_mut(1));
/// reduce::<u32, Sum, _>(&compute, blocks, &input, &mut partials, &mut finished, sum)?;
/// reduce::<u32, Max, _>(&compute, blocks, &input, &mut partials, &mut finished, max)?;
/// assert_eq!(compute.copy_to_vec(&result)?, [5000 * 4999 / 2, 4999]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(block = 256, instances = [
    <f32, Sum>, <f32, Min>, <f32, Max>, <u32, Sum>, <u32, Min>, <u32, Max>, <i32, Sum>, <i32, Min>,
    <i32, Max>, <f64, Sum>, <u64, Sum>, <i64, Sum>,
])]
pub fn reduce<T: AtomicElement + ShuffleElement + PhaseSafe, O: Operator<T>>(
    mut block: Block,
    mut scratch: BlockUninit<T, 8>,
    input: &[T],
    partials: Atomic<T>,
    finished: Atomic<u32>,
    result: Atomic<T>,
) {
    let (blocks, size, position) = (block.blocks_x(), block.size(), block.x());
    let (before, chunks, after) = input.aligned_chunks::<4>();
    let values = block.map(|lane| {
        let mut sums = [O::IDENTITY; 4];
        let add = |sums: &mut [T; 4], chunk: [T; 4]| {
            for (sum, value) in sums.iter_mut().zip(chunk.iter()) {
                *sum = O::combine(*sum, *value);
            }
        };
        // Each block takes every `blocks`-th piece of the input.
        let piece = IN_FLIGHT * size;
        let mut first = position * piece;
        while first + piece <= chunks.len() {
            let loaded: [[T; 4]; IN_FLIGHT] = core::array::from_fn(|k| {
                chunks
                    .get(first + k * size + lane.index())
                    .unwrap_or([O::IDENTITY; 4])
            });
            for chunk in loaded.iter() {
                add(&mut sums, *chunk);
            }
            first += blocks * piece;
        }
        let mut at = first + lane.index();
        while let Some(chunk) = chunks.get(at).filter(|_| at < first + piece) {
            add(&mut sums, chunk);
            at += size;
        }
        let rest = |elements: &[T]| {
            let (mut sum, mut at) = (O::IDENTITY, lane.position());
            while let Some(value) = elements.get(at) {
                sum = O::combine(sum, *value);
                at += blocks * size;
            }
            sum
        };
        let ends = O::combine(rest(before), rest(after));
        let [a, b, c, d] = sums;
        O::combine(O::combine(O::combine(a, b), O::combine(c, d)), ends)
    });
    let partial = block.reduce::<O, T, 8>(&mut scratch, &values);
    // The fence orders the partial result before the block's number in `finished`.
    let is_last = block.any(|thread| {
        thread.index() == 0 && {
            partials.store(thread, position, partial);
            fence::device();
            let before = finished.fetch_add(thread, 0, 1);
            fence::device();
            before as usize == blocks - 1
        }
    });
    if !is_last {
        return;
    }
    let values = block.map(|lane| {
        let mut sum = O::IDENTITY;
        let mut at = lane.index();
        while at < blocks {
            sum = O::combine(sum, partials.load(lane, at));
            at += size;
        }
        sum
    });
    let total = block.reduce::<O, T, 8>(&mut scratch, &values);
    block.threads(|thread| {
        if thread.index() == 0 {
            result.store(thread, 0, total);
            finished.store(thread, 0, 0);
        }
    });
}
