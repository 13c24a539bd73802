// H37, mended: the owner releases the frame, and the copy waits for the release.
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
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut frame, 1.0)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    let frame = copies.copy_from_peer(compute.release(frame)?, .., &mut here)?;
    drop(frame);
    let mut host = copies.adopt(gpu.pinned::<f32>(1024)?)?;
    copies.copy_to_host(&here, &mut host)?;
    assert_eq!(*copies.release(host)?.synchronize()?, [1.0; 1024]);
    Ok(())
}
