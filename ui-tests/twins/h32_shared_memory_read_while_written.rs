// H32, mended: one phase writes, and the next phase reads: a sum of each block in shared memory.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::block_sum;

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
    let input = compute.init_filled(compute.alloc_uninit::<f32>(1024)?, 0.5)?;
    let mut sums = compute.alloc_zeroed::<f32>(4)?;
    block_sum(&compute, Grid1::covering(1024), &input, &mut sums)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(4)?)?;
    compute.copy_to_host(&sums, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [128.0; 4]);
    Ok(())
}
