// H32, mended: atomics let every thread add to every element.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::histogram;

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
    let values: Vec<u8> = (0..2560).map(|index| (index % 10) as u8).collect();
    let host = compute.adopt(gpu.pinned_from(&values)?)?;
    let values = compute.init_from_host(compute.alloc_uninit::<u8>(2560)?, &host)?;
    let mut bins = compute.alloc_zeroed::<u32>(256)?;
    histogram(&compute, Grid1::covering(2560), &values, &mut bins)?;
    let mut host = compute.adopt(gpu.pinned::<u32>(256)?)?;
    compute.copy_to_host(&bins, &mut host)?;
    let host = compute.release(host)?.synchronize()?;
    assert!(host[..10].iter().all(|count| *count == 256) && host[10..].iter().all(|count| *count == 0));
    Ok(())
}
