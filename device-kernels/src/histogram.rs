//! Counts of bytes, after CUDA's `histogram256` sample: each block counts in shared memory, and
//! adds its counts once.

use device_std::prelude::*;

/// Adds to `counts[v]` the number of bytes of `input` that are `v`. The caller zeroes the 256
/// counts first; fewer trap. Counts wrap at 2^32.
///
/// Any grid does: all threads together stride over the input. One thread for every 64 bytes or so
/// keeps the cost of the final additions small: `Grid1::covering(input.len().div_ceil(64))`.
#[kernel(block = 256)]
pub fn histogram(mut block: Block, local: BlockUninit<u32, 256>, input: &[u8], counts: Atomic<u32>) {
    let mut local = local.init(&mut block, |_, _| 0);
    let stride = block.blocks_x() * block.size();
    let bins = local.atomic();
    block.threads(|thread| {
        let mut at = thread.position();
        while let Some(value) = input.get(at) {
            bins.fetch_add(thread, usize::from(*value), 1);
            at += stride;
        }
    });
    let bins = local.view();
    block.threads(|thread| {
        let count = bins.slice(thread)[thread.index()];
        if count > 0 {
            counts.fetch_add(thread, thread.index(), count);
        }
    });
}
