// H12, mended: each buffer changes its owner through a handoff.
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
    let (mut one, mut two) = (
        compute.alloc_zeroed::<f32>(64)?,
        download.alloc_zeroed::<f32>(64)?,
    );
    compute.fill(&mut one, 1.0)?;
    download.fill(&mut two, 2.0)?;
    let (from_compute, from_download) = (compute.release(one)?, download.release(two)?);
    let (one, two) = (compute.acquire(from_download)?, download.acquire(from_compute)?);
    let mut host = (compute.adopt(gpu.pinned(64)?)?, download.adopt(gpu.pinned(64)?)?);
    compute.copy_to_host(&one, &mut host.0)?;
    download.copy_to_host(&two, &mut host.1)?;
    assert_eq!(*compute.release(host.0)?.synchronize()?, [2.0; 64]);
    assert_eq!(*download.release(host.1)?.synchronize()?, [1.0; 64]);
    Ok(())
}
