// H10, mended: `reclaim` returns a handoff that waits for both readers.
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
    let mut frame = compute.alloc_zeroed::<f32>(4096)?;
    compute.fill(&mut frame, 1.0)?;
    let shared = compute.share(frame)?;
    let mut host = (
        download.adopt(gpu.pinned(4096)?)?,
        upload.adopt(gpu.pinned(4096)?)?,
    );
    {
        let (one, two) = (download.lease(&shared)?, upload.lease(&shared)?);
        download.copy_to_host(&one.view(), &mut host.0)?;
        upload.copy_to_host(&two.view(), &mut host.1)?;
    }
    let mut frame = compute.acquire(shared.reclaim().expect("both leases have ended"))?;
    compute.fill(&mut frame, 2.0)?;
    compute.synchronize()?;
    assert_eq!(*download.release(host.0)?.synchronize()?, [1.0; 4096]);
    assert_eq!(*upload.release(host.1)?.synchronize()?, [1.0; 4096]);
    Ok(())
}
