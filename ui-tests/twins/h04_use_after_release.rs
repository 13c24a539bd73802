// H04, mended: all of the owner's work comes before the release.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut copy = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut frame, 3.0)?;
    compute.copy(&frame, &mut copy)?;
    let mut frame = download.acquire(compute.release(frame)?)?;
    download.fill(&mut frame, 4.0)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    compute.copy_to_host(&copy, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [3.0; 1024]);
    Ok(())
}
