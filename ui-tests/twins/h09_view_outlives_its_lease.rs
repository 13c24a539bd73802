// H09, mended: while a lease is out, `reclaim` returns the shared frame. Once the lease has ended,
// `reclaim` succeeds.
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
    compute.fill(&mut frame, 3.0)?;
    let shared = compute.share(frame)?;
    let lease = download.lease(&shared)?;
    let shared = shared.reclaim().expect_err("a lease is out");
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.copy_to_host(&lease.view(), &mut host)?;
    drop(lease);
    let mut frame = compute.acquire(shared.reclaim().expect("no lease is out"))?;
    compute.fill(&mut frame, 4.0)?;
    assert_eq!(*download.release(host)?.synchronize()?, [3.0; 1024]);
    Ok(())
}
