// H11, mended: the half is lent. `Download` waits for `Compute`, and `Compute` waits for the work
// of `Download`.
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
    compute.fill(&mut frame, 6.0)?;
    let (low, high) = frame.split_at_mut(512);
    let mut host = download.adopt(gpu.pinned::<f32>(512)?)?;
    compute.lend(&download, high, |high| download.copy_to_host(high, &mut host))??;
    compute.fill(high, 7.0)?;
    compute.fill(low, 1.0)?;
    assert_eq!(*download.release(host)?.synchronize()?, [6.0; 512]);
    Ok(())
}
