// H37, mended: `Copies` hands over the copied data.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live, OpenError};

cuda_rt::streams! {
    Compute;
    Copies;
}

fn main() -> Result<(), Error> {
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| {
            gpu.simulated_peer(|other| program(&gpu, &other))
        })???;
    }
    // A single GPU plays both devices.
    match Device::with_gpu(0, |gpu| {
        Device::with_gpu(1, |other| program(&gpu, &other))
            .or_else(|_| Device::with_gpu(0, |other| program(&gpu, &other)))?
    }) {
        Err(OpenError::NoGpu(_)) => Ok(()),
        ran => ran?,
    }
}

fn program<A: Live, B: Live>(gpu: &Device<A>, other: &Device<B>) -> Result<(), Error> {
    let there = other.stream::<Compute<B>>()?;
    let (compute, copies) = (gpu.stream::<Compute<A>>()?, gpu.stream::<Copies<A>>()?);
    let mut frame = there.alloc_zeroed::<f32>(1024)?;
    there.fill(&mut frame, 2.0)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let frame = copies.copy_from_peer(there.release(frame)?, .., &mut here)?;
    let here = compute.acquire(copies.release(here)?)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    compute.copy_to_host(&here, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [2.0; 1024]);
    drop(frame);
    Ok(())
}
