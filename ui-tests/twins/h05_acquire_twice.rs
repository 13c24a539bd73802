// H05, mended: the frame is shared: each stream reads it through a lease.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
    Compute;
    Download;
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
    let (compute, download, upload) = (
        gpu.stream::<Compute<D>>()?,
        gpu.stream::<Download<D>>()?,
        gpu.stream::<Upload<D>>()?,
    );
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut frame, 7.0)?;
    let shared = compute.share(frame)?;
    let mut host = (
        download.adopt(gpu.pinned(1024)?)?,
        upload.adopt(gpu.pinned(1024)?)?,
    );
    download.copy_to_host(&download.lease(&shared)?.view(), &mut host.0)?;
    upload.copy_to_host(&upload.lease(&shared)?.view(), &mut host.1)?;
    assert_eq!(*download.release(host.0)?.synchronize()?, [7.0; 1024]);
    assert_eq!(*upload.release(host.1)?.synchronize()?, [7.0; 1024]);
    Ok(())
}
