// H05, mended: the joined handoff is acquired, once, and waits for both streams.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Handoff, Live};

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
    let a = compute.release(compute.init_filled(compute.alloc_uninit::<f32>(1024)?, 1.0)?)?;
    let b = download.release(download.init_filled(download.alloc_uninit::<f32>(1024)?, 2.0)?)?;
    let (a, b) = download.acquire(Handoff::join((a, b)))?;
    let mut hosts = download.adopt((gpu.pinned::<f32>(1024)?, gpu.pinned::<f32>(1024)?))?;
    download.copy_to_host(&a, &mut hosts.0)?;
    download.copy_to_host(&b, &mut hosts.1)?;
    let (a, b) = download.release(hosts)?.synchronize()?;
    assert_eq!((&*a, &*b), (&[1.0; 1024][..], &[2.0; 1024][..]));
    Ok(())
}
