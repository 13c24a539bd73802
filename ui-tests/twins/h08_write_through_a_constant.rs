// H08, mended: the weights are written before they become constant.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Constant, Device, Error, Live};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let mut weights = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut weights, 1.0)?;
    let weights = Constant::new(compute.release(weights)?.synchronize()?);
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.copy_to_host(&download.adopt(weights)?.view(), &mut host)?;
    assert_eq!(*download.release(host)?.synchronize()?, [1.0; 1024]);
    Ok(())
}
