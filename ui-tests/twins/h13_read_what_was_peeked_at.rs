// H13, mended: the length is known while the download is pending, and the elements after the wait.
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
    let frame = compute.init_filled(compute.alloc_uninit::<f32>(1024)?, 6.0)?;
    let frame = download.acquire(compute.release(frame)?)?;
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let pending = download.release(host)?;
    assert_eq!((pending.peek().len(), pending.len()), (1024, 1024));
    assert_eq!(pending.synchronize()?[0], 6.0);
    Ok(())
}
