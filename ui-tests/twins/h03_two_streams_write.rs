// H03, mended: the second writer acquires the buffer from the first.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

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
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut frame, 1.0)?;
    let mut frame = upload.acquire(compute.release(frame)?)?;
    upload.fill(&mut frame, 2.0)?;
    let mut host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    upload.copy_to_host(&frame, &mut host)?;
    assert_eq!(*upload.release(host)?.synchronize()?, [2.0; 1024]);
    Ok(())
}
