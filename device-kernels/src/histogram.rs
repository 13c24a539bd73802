//! Counts the values of bytes, after CUDA's `histogram256` sample: each block counts in shared
//! memory, and adds its counts to the result once.

use device_std::prelude::*;

/// Adds the number of bytes of `input` with the value `v` to `counts[v]`. The caller zeroes the 256
/// counts first. Counts wrap at 2^32. Traps if `counts` has fewer than 256 elements.
///
/// The grid may have any size: all threads together stride over the input. With one thread for
/// about 64 bytes, the final additions cost little: `Grid1::covering(input.len().div_ceil(64))`.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::histogram;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let text = compute.alloc_from_slice(b"a bad cab")?;
/// let mut counts = compute.alloc_zeroed::<u32>(256)?;
/// histogram(&compute, Grid1::covering(1), &text, &mut counts)?;
/// assert_eq!(compute.copy_to_vec(&counts[b'a' as usize..][..3])?, [3, 2, 1]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
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
