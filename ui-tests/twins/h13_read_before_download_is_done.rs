// H13, mended: `release` and `synchronize` wait for the download, and return idle memory.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
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
    let download = gpu.stream::<Download<D>>()?;
    let mut frame = download.alloc_zeroed::<f32>(1024)?;
    download.fill(&mut frame, 1.5)?;
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let host = download.release(host)?.synchronize()?;
    assert_eq!((host[0], host[1023]), (1.5, 1.5));
    Ok(())
}
