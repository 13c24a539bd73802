// H23, mended: a copy on the host leaves the closure.
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
    let mut frame = compute.alloc_zeroed::<f32>(64)?;
    compute.fill(&mut frame, 1.0)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(64)?)?;
    compute.copy_to_host(&frame, &mut host)?;
    let copy: Vec<f32> = compute.release(host)?.synchronize()?.to_vec();
    assert_eq!(copy, [1.0; 64]);
    Ok(())
}
