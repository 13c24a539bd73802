//! Memory that kernels reach elsewhere than on their device.

use cuda_rt::driver::{Advice, Location};
use cuda_rt::{Device, Grid1, Live, Result};
use device_kernels::{add, scale};

use super::{LEN, Streams};

/// Pinned memory that kernels and fills reach in place, managed memory and write-combined memory.
/// They are dropped while work uses them, and memory of the same size is taken at once.
pub(super) fn program<D: Live>(gpu: &Device<D>, streams: &Streams<D>) -> Result<()> {
    let Streams {
        compute, download, ..
    } = streams;
    let grid = Grid1::covering(LEN);
    let value = 80.0;
    let one = compute.adopt(gpu.pinned_from(&[value; LEN])?)?;
    let sum = compute.mapped_output(compute.adopt(gpu.pinned_uninit(LEN)?)?)?;
    let sum = add(compute, grid, compute.mapped(&one)?, compute.mapped(&one)?, sum)?;
    let mut data = compute.adopt(gpu.managed_from(&[value; LEN])?)?;
    data.advise(.., Advice::SetReadMostly)?;
    compute.prefetch(&data, .., Location::Device)?;
    scale(compute, grid, compute.mapped(&sum)?, &mut data, 3.0)?;
    let dropped = compute.adopt(gpu.managed_uninit::<f32>(LEN)?)?;
    drop(compute.init_managed_filled(dropped, 1.0)?);
    let (data, sum) = download.acquire(compute.release((data, sum))?)?;
    let mut copy = download.adopt(gpu.pinned::<f32>(LEN)?)?;
    download.copy(&data, download.mapped_mut(&mut copy)?)?;
    drop(data);
    let mut next = gpu.managed::<f32>(LEN)?;
    next.host_mut(|next| next.fill(-1.0))?;
    let (copy, sum) = download.release((copy, sum))?.synchronize()?;
    assert_eq!((*copy).to_vec(), [6.0 * value; LEN]);
    assert_eq!(*sum, [2.0 * value; LEN]);
    assert_eq!(next.to_vec()?, [-1.0; LEN]);
    gpu.trim_managed();

    let frame = compute.adopt(gpu.write_combined_from(&[value; LEN])?)?;
    let uploaded = compute.init_from_host(compute.alloc_uninit(LEN)?, &frame)?;
    drop(frame);
    let mut next = gpu.write_combined::<f32>(LEN)?;
    next.fill(.., -1.0)?;
    assert_eq!(compute.copy_to_vec(&uploaded)?, [value; LEN]);
    let next = compute.release(compute.adopt(next)?)?.synchronize()?;
    drop(next);
    gpu.trim_write_combined();
    Ok(())
}
