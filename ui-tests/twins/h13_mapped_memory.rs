// H13, mended: the host waits for the kernel, and one stream for the other, to use mapped memory.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Other;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, other) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Other<D>>()?);
    let input = compute.adopt(gpu.pinned_from(&[1.0_f32; 1024])?)?;
    let mut output = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    let mapped = compute.mapped_mut(&mut output)?;
    scale(
        &compute,
        Grid1::covering(1024),
        compute.mapped(&input)?,
        mapped,
        2.0,
    )?;
    let mut output = other.acquire(compute.release(output)?)?;
    other.fill(other.mapped_mut(&mut output[..1])?, 7.0)?;
    let mut output = other.release(output)?.synchronize()?;
    assert_eq!((output[0], output[1]), (7.0, 2.0));
    output[0] = 2.0;
    assert_eq!(*output, [2.0; 1024]);
    Ok(())
}
