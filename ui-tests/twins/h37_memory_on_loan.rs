// H36 and H37, mended: memory on loan changes its owner by handoffs, also between devices.
use cuda_rt::driver::PeerAccess;
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
    if gpu.peer_access(other)? == PeerAccess::Staged {
        return Ok(());
    }
    let (compute, copies) = (gpu.stream::<Compute<A>>()?, gpu.stream::<Copies<A>>()?);
    let owner = other.stream::<Compute<B>>()?;
    let frame = owner.alloc_zeroed::<f32>(1024)?;
    let mut lent = compute.acquire_peer(owner.release(frame)?)?;
    compute.fill(&mut lent[..512], 1.0)?;
    let lent = copies.acquire(compute.release(lent)?)?;
    let mut here = copies.alloc_zeroed::<f32>(1024)?;
    copies.copy(&lent, &mut here)?;
    let mut frame = owner.acquire(copies.release(lent)?.for_its_device())?;
    owner.fill(&mut frame, 2.0)?;
    let here = copies.copy_to_vec(&here)?;
    assert_eq!((here[511], here[512]), (1.0, 0.0));
    Ok(())
}
