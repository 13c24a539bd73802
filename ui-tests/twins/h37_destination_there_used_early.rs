// H37, mended: GPU 1 acquires the field again, and so waits for the copy of its edge.
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
    let field = compute.alloc_zeroed::<f32>(1024)?;
    let mut edge = copies.alloc_zeroed::<f32>(16)?;
    copies.fill(&mut edge, 3.0)?;
    let field = copies.copy_to_peer(&edge, compute.release(field)?, ..16)?;
    let mut field = compute.acquire(field)?;
    compute.fill(&mut field[16..], 1.0)?;
    let mut host = compute.adopt(other.pinned::<f32>(1024)?)?;
    compute.copy_to_host(&field, &mut host)?;
    let host = compute.release(host)?.synchronize()?;
    assert_eq!((&host[..16], &host[16..]), (&[3.0; 16][..], &[1.0; 1008][..]));
    Ok(())
}
