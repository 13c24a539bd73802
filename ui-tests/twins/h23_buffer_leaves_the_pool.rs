// H23, mended: the buffer leaves as a handoff, which carries no brand.
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
    let pool = gpu.stream_pool(2)?;
    for value in [1.0, 2.0, 3.0] {
        let handoff = pool.with(|stream| {
            let mut frame = stream.alloc_zeroed::<f32>(64)?;
            stream.fill(&mut frame, value)?;
            stream.release(frame)
        })?;
        let frame = download.acquire(handoff)?;
        let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
        download.copy_to_host(&frame, &mut host)?;
        assert_eq!(*download.release(host)?.synchronize()?, [value; 64]);
    }
    Ok(())
}
