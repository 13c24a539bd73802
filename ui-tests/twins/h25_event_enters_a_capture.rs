// H25, mended: the stream of each launch waits for the event.
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
    let mut graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        let side = stream.fork::<Download<D>>()?;
        stream.fill(&mut view, 1.0)?;
        side.wait_event(&stream.record_event()?)
    })?;
    compute.wait_event(&download.record_event()?)?;
    graph.launch(&compute)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    compute.copy_to_host(&graph.into_inner(), &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [1.0; 1024]);
    Ok(())
}
