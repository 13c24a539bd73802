// H06, mended: each stream releases the parts that it owns.
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
    compute.fill(&mut frame, 1.0)?;
    let source = compute.alloc_zeroed::<f32>(1024)?;
    let source = download.acquire(compute.release(source)?)?;
    let mut host = download.adopt(gpu.pinned_from(&[9.0; 1024])?)?;
    download.copy_to_host(&source, &mut host)?;
    let (frame, host) = (
        compute.release(frame)?.synchronize()?,
        download.release(host)?.synchronize()?,
    );
    assert_eq!((frame.len(), *host == [0.0; 1024]), (1024, true));
    Ok(())
}
