// H01, mended: `Compute` releases the frame and `Download` acquires it: an event, and a wait on the
// GPU.
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
    compute.fill(&mut frame, 1.5)?;
    let frame = download.acquire(compute.release(frame)?)?;
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let (_, host) = download.release((frame, host))?.synchronize()?;
    assert_eq!(*host, [1.5; 1024]);
    Ok(())
}
