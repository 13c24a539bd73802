// H11, mended: the first half is handed over and copied back while the second half is written. Then
// the halves are joined.
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
    let mut first = compute.alloc_zeroed::<f32>(1024)?;
    let mut second = first.split_off(512);
    let mut hosts = (
        download.adopt(gpu.pinned::<f32>(512)?)?,
        compute.adopt(gpu.pinned::<f32>(1024)?)?,
    );
    compute.fill(&mut first, 1.0)?;
    let first = download.acquire(compute.release(first)?)?;
    download.copy_to_host(&first, &mut hosts.0)?;
    compute.fill(&mut second, 2.0)?;
    let whole = compute.acquire(download.release(first)?)?.join(second)?;
    compute.copy_to_host(&whole, &mut hosts.1)?;
    assert_eq!(*download.release(hosts.0)?.synchronize()?, [1.0; 512]);
    let host = compute.release(hosts.1)?.synchronize()?;
    assert_eq!((&host[..512], &host[512..]), (&[1.0; 512][..], &[2.0; 512][..]));
    Ok(())
}
