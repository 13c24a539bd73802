// H21, mended: memory dropped in flight is freed in the stream's order, after the copy.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let compute = gpu.stream::<Compute<D>>()?;
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut copy = compute.alloc_zeroed::<f32>(512)?;
    compute.fill(&mut frame, 1.0)?;
    compute.copy(&frame[..512], &mut copy)?;
    drop(frame);
    let mut next = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut next, 2.0)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(512)?)?;
    compute.copy_to_host(&copy, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [1.0; 512]);
    Ok(())
}
