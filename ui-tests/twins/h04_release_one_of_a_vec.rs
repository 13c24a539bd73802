// H04, mended: the whole `Vec` is released, behind one event, and split into handoffs.
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
    let mut frames = vec![compute.alloc_zeroed::<f32>(64)?, compute.alloc_zeroed::<f32>(64)?];
    for (frame, value) in frames.iter_mut().zip([5.0, 6.0]) {
        compute.fill(frame, value)?;
    }
    for (handoff, value) in compute.release(frames)?.split().into_iter().zip([5.0, 6.0]) {
        let frame = download.acquire(handoff)?;
        let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
        download.copy_to_host(&frame, &mut host)?;
        assert_eq!(*download.release(host)?.synchronize()?, [value; 64]);
    }
    Ok(())
}
