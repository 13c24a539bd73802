// H11, mended: `split_at_mut` makes views that do not overlap.
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
    let mut frame = compute.alloc_zeroed::<f32>(1000)?;
    let (low, high) = frame.split_at_mut(400);
    compute.fill(low, 1.0)?;
    compute.fill(&mut high[100..], 2.0)?;
    compute.copy(&high[..100], &mut low[300..])?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1000)?)?;
    compute.copy_to_host(&frame, &mut host)?;
    let host = compute.release(host)?.synchronize()?;
    assert!(host[..300].iter().all(|x| *x == 1.0) && host[300..500].iter().all(|x| *x == 0.0));
    assert!(host[500..].iter().all(|x| *x == 2.0));
    Ok(())
}
