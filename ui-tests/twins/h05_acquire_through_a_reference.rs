// H05, mended: the handoff is taken out of the queue.
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};

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
    let mut queue = Vec::new();
    for value in [1.0, 2.0] {
        let mut frame = compute.alloc_zeroed::<f32>(1024)?;
        compute.fill(&mut frame, value)?;
        queue.push(compute.release(frame)?);
    }
    while let Some(handoff) = queue.pop() {
        let value = (queue.len() + 1) as f32;
        let frame = download.acquire(handoff)?;
        let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
        download.copy_to_host(&frame, &mut host)?;
        assert_eq!(*download.release(host)?.synchronize()?, [value; 1024]);
    }
    Ok(())
}
