// H01, mended: `Upload` releases the input, and `Compute` acquires it.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
    Upload;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, upload) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Upload<D>>()?);
    let host = upload.adopt(gpu.pinned_from(&[1.5f32; 4096])?)?;
    let input = upload.init_from_host(upload.alloc_uninit::<f32>(4096)?, &host)?;
    let input = compute.acquire(upload.release(input)?)?;
    let mut output = compute.alloc_zeroed::<f32>(4096)?;
    scale(&compute, Grid1::covering(4096), &input, &mut output, 2.0)?;
    let mut back = compute.adopt(gpu.pinned::<f32>(4096)?)?;
    compute.copy_to_host(&output, &mut back)?;
    assert_eq!(*compute.release(back)?.synchronize()?, [3.0; 4096]);
    Ok(())
}
