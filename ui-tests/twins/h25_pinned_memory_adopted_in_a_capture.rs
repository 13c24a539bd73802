// H25, mended: the graph owns the pinned memory; the host gets it back from the graph.
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
    let bundle = (
        compute.alloc_zeroed::<f32>(64)?,
        compute.adopt(gpu.pinned::<f32>(64)?)?,
    );
    let mut graph = compute.capture(bundle, |stream, (mut frame, mut host)| {
        stream.fill(&mut frame, 5.0)?;
        stream.copy_to_host(&frame, &mut host)
    })?;
    graph.launch(&compute)?;
    let (_, host) = compute.release(graph.into_inner())?.synchronize()?;
    assert_eq!(*host, [5.0; 64]);
    Ok(())
}
