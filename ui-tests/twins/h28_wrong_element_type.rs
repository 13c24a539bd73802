// H28, mended: the types come from the kernel's signature, which is the same item on host and
// device.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::scale;

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
    let host = compute.adopt(gpu.pinned_from(&[1.5f32; 1000])?)?;
    let input = compute.init_from_host(compute.alloc_uninit::<f32>(1000)?, &host)?;
    let mut output = compute.alloc_zeroed::<f32>(1000)?;
    scale(&compute, Grid1::covering(1000), &input, &mut output, 2.0)?;
    let mut host = host;
    compute.copy_to_host(&output, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [3.0; 1000]);
    Ok(())
}
