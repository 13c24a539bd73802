// H23, mended: pinned memory crosses devices, through `for_device`.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?, 3)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu, 3))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>, depth: u64) -> Result<(), Error> {
    let compute = gpu.stream::<Compute<D>>()?;
    let mut frame = compute.alloc_zeroed::<f32>(64)?;
    compute.fill(&mut frame, depth as f32)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(64)?)?;
    compute.copy_to_host(&frame, &mut host)?;
    let host = compute.release(host)?.synchronize()?;
    if depth == 0 || !gpu.is_simulated() {
        assert_eq!(*host, [depth as f32; 64]);
        return Ok(());
    }
    Device::simulated(SimConfig::default().seed(depth), |inner| {
        let compute = inner.stream::<Compute<_>>()?;
        let host = compute.adopt(host.for_device(&inner)?)?;
        let mut frame = compute.alloc_zeroed::<f32>(64)?;
        compute.copy_to_device(&host, &mut frame)?;
        let mut back = compute.adopt(inner.pinned::<f32>(64)?)?;
        compute.copy_to_host(&frame, &mut back)?;
        assert_eq!(*compute.release(back)?.synchronize()?, [depth as f32; 64]);
        program(&inner, depth - 1)
    })?
}
