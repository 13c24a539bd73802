// H14, mended: the host reads the samples during their upload, and writes them after it.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live, Shared};

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
    let shared = Shared::new(gpu.pinned_from(&[6.0_f32; 1024])?);
    let lease = compute.lease(&shared)?;
    let host = shared.host()?;
    let frame = compute.init_from_host(compute.alloc_uninit(1024)?, &lease.view())?;
    assert_eq!(host[0], 6.0);
    drop((host, lease));
    let mut samples = shared.reclaim().expect("no lease is left").synchronize()?;
    samples[0] = 1.0;
    let frame = download.acquire(compute.release(frame)?)?;
    let mut seen = vec![0.0; 1024];
    download.copy_to_slice(&frame, &mut seen)?;
    assert_eq!(seen, [6.0; 1024]);
    Ok(())
}
