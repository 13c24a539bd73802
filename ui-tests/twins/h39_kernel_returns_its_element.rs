// H39, mended: a kernel that returns its element writes memory that nothing wrote before, and the
// launch makes it readable. So do a slice, a closure, a reader or the device for pinned memory.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::add;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let compute = gpu.stream::<Compute<D>>()?;
    let (ones, grid) = (compute.alloc_from_slice(&[1.0; 64])?, Grid1::covering(64));

    // A launch that is refused gives the output back. A grid that covers it makes it readable.
    let sum = match add(&compute, Grid1::covering(63), &ones, &ones, compute.alloc_uninit(64)?) {
        Ok(sum) => sum,
        Err(refused) => add(&compute, grid, &ones, &ones, refused.value)?,
    };
    assert_eq!(compute.copy_to_vec(&sum)?, [2.0; 64]);

    // What is read of a larger buffer is the part that was written.
    let mut sums = compute.alloc_uninit::<f32>(1024)?;
    let part = add(&compute, grid, &ones, &sum, &mut sums[..64])?;
    assert_eq!(compute.copy_to_vec(part)?, [3.0; 64]);

    let host = gpu.pinned_uninit(64)?.init_with(|at| at as f32);
    let host = compute.adopt(host)?;
    let frame = compute.init_from_host(compute.alloc_uninit(64)?, &host)?;
    let back = compute.adopt(gpu.pinned_uninit(64)?)?;
    let back = compute.init_host_from(back, &frame)?;
    assert_eq!(compute.release(back)?.synchronize()?[63], 63.0);
    Ok(())
}
