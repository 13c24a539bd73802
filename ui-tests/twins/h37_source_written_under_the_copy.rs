// H37, mended: GPU 1 acquires the frame again, and so waits for the copy.
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
    let (compute, copies) = (other.stream::<Compute<B>>()?, gpu.stream::<Copies<A>>()?);
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let copied = copies.copy_from_peer(compute.release(frame)?, .., &mut here)?;
    let mut frame = compute.acquire(copied)?;
    compute.fill(&mut frame, 1.0)?;
    let mut host = copies.adopt(gpu.pinned::<f32>(1024)?)?;
    copies.copy_to_host(&here, &mut host)?;
    assert_eq!(*copies.release(host)?.synchronize()?, [0.0; 1024]);
    Ok(())
}
