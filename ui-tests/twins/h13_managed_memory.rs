// H13, mended: the host uses managed memory inside a closure, when no stream owns it.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

cuda_rt::streams! {
    Compute;
    Other;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    if !gpu.properties().concurrent_managed_access {
        return Ok(());
    }
    let (compute, other) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Other<D>>()?);
    let mut data = gpu.managed::<f32>(1024)?;
    data.host_mut(|data| data[1] = 5.0)?;
    let mut data = compute.adopt(data)?;
    compute.fill(&mut data[..1], 1.0)?;
    let mut data = other.acquire(compute.release(data)?)?;
    other.fill(&mut data[2..], 2.0)?;
    let data = other.release(data)?.synchronize()?;
    let first = data.host(|data| [data[0], data[1], data[2]])?;
    assert_eq!(first, [1.0, 5.0, 2.0]);
    Ok(())
}
