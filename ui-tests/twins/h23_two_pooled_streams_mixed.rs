// H23, mended: the second stream acquires the buffer.
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
    let handoff = pool.with(|one| {
        let mut frame = one.alloc_zeroed::<f32>(64)?;
        one.fill(&mut frame, 1.0)?;
        pool.with(|two| {
            let mut frame = two.acquire(one.release(frame)?)?;
            two.fill(&mut frame[..32], 2.0)?;
            two.release(frame)
        })
    })?;
    let frame = download.acquire(handoff)?;
    let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
    download.copy_to_host(&frame, &mut host)?;
    let host = download.release(host)?.synchronize()?;
    assert_eq!((host[0], host[31], host[32]), (2.0, 2.0, 1.0));
    Ok(())
}
