// H40, mended: device memory holds numbers: offsets into a text that the host keeps.
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
    let text = "blur sharpen";
    let host = compute.adopt(gpu.pinned_from(&[[0u32, 4], [5, 12]])?)?;
    let names = compute.init_from_host(compute.alloc_uninit::<[u32; 2]>(2)?, &host)?;
    let mut back = compute.adopt(gpu.pinned::<[u32; 2]>(2)?)?;
    compute.copy_to_host(&names, &mut back)?;
    let back = compute.release(back)?.synchronize()?;
    let names = back
        .iter()
        .map(|[start, end]| &text[*start as usize..*end as usize]);
    assert!(names.eq(["blur", "sharpen"]));
    Ok(())
}
