// H29, mended: `saxpy` reads its output through the thread's own element. Another way is two halves
// of one buffer, which do not overlap.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Live};
use device_kernels::saxpy;

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
    compute.fill(&mut frame, 1.0)?;
    let (low, high) = frame.split_at_mut(500);
    saxpy(&compute, Grid1::covering(500), 3.0, low, high)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1000)?)?;
    compute.copy_to_host(&frame, &mut host)?;
    let host = compute.release(host)?.synchronize()?;
    assert!(host[..500].iter().all(|x| *x == 1.0) && host[500..].iter().all(|x| *x == 4.0));
    Ok(())
}
