// H02, mended: at the end of each round the frame comes back, ordered after its download.
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
    let mut saved = Vec::new();
    for round in 0..4 {
        compute.fill(&mut frame, round as f32)?;
        let reading = download.acquire(compute.release(frame)?)?;
        let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
        download.copy_to_host(&reading, &mut host)?;
        saved.push(download.release(host)?);
        frame = compute.acquire(download.release(reading)?)?;
    }
    for (host, round) in saved.into_iter().zip(0..) {
        assert_eq!(*host.synchronize()?, [round as f32; 1024]);
    }
    Ok(())
}
