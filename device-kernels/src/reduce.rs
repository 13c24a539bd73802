//! Sums of blocks, after "Faster Parallel Reductions on Kepler" (J. Luitjens, NVIDIA, 2014):
//! shuffles within a warp, shared memory between warps.

use device_std::prelude::*;

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
