// H08, mended: the leases end, the bundle is reclaimed, and only then written.
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
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let mut host = download.adopt(gpu.pinned_from(&[5.0; 1024])?)?;
    download.copy_to_host(&download.lease(&shared)?.view(), &mut host)?;
    let mut frame = compute.acquire(shared.reclaim().expect("no lease is out"))?;
    compute.fill(&mut frame, 1.0)?;
    assert_eq!(*download.release(host)?.synchronize()?, [0.0; 1024]);
    Ok(())
}
