// H33, mended: each instance that the kernel lists has an entry, and the arguments choose it.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Live};
use library_kernels::generic::{scale, widen};

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
    let grid = Grid1::covering(1000);
    let mut input = compute.alloc_zeroed::<f64>(1000)?;
    compute.fill(&mut input, 1.5)?;
    let mut output = compute.alloc_zeroed::<f64>(1000)?;
    scale(&compute, grid, &input, &mut output, 2.0)?;
    assert_eq!(compute.copy_to_vec(&output)?, [3.0; 1000]);

    // An instance whose name the program says; the stream and the output are inferred.
    let mut bytes = compute.alloc_zeroed::<u8>(1000)?;
    compute.fill(&mut bytes, 255)?;
    let mut bias = compute.alloc_zeroed::<u32>(1000)?;
    compute.fill(&mut bias, 1000)?;
    let sums = compute.alloc_uninit(1000)?;
    let sums = widen::<u8, _, _>(&compute, grid, &bytes, &bias, sums)?;
    assert_eq!(compute.copy_to_vec(&sums)?, [1255; 1000]);
    Ok(())
}
