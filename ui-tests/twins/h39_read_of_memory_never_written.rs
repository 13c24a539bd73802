// H39, mended: `init_filled`, `init_from` and `init_from_host` write all of the memory, and make it
// readable.
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
    let filled = compute.init_filled(compute.alloc_uninit::<f32>(64)?, 7.0)?;
    let copied = compute.init_from(compute.alloc_uninit::<f32>(64)?, &filled)?;
    let source = compute.adopt(gpu.pinned_from(&[8.0; 64])?)?;
    let uploaded = compute.init_from_host(compute.alloc_uninit::<f32>(64)?, &source)?;
    for (frame, value) in [(copied, 7.0), (uploaded, 8.0)] {
        let mut host = compute.adopt(gpu.pinned::<f32>(64)?)?;
        compute.copy_to_host(&frame, &mut host)?;
        assert_eq!(*compute.release(host)?.synchronize()?, [value; 64]);
    }
    Ok(())
}
