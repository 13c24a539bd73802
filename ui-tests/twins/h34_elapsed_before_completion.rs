// H34, mended: `synchronize` waits for the timed events.
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
    let start = compute.record_timed_event()?;
    let mut frame = compute.alloc_zeroed::<f32>(1 << 20)?;
    compute.fill(&mut frame, 1.0)?;
    let end = compute.record_timed_event()?;
    let (start, end) = (start.synchronize()?, end.synchronize()?);
    assert!(end.elapsed_ms_since(&start)? > 0.0);
    assert!(start.elapsed_ms_since(&end)? < 0.0);
    Ok(())
}
