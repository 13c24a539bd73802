// H25, mended: the graph moves between threads, and each thread launches it in turn.
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
    let mut graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, mut view| {
        stream.fill(&mut view[..32], 1.0)
    })?;
    graph.launch(&compute)?;
    let graph = std::thread::scope(|scope| {
        let thread = scope.spawn(|| graph.launch(&compute).map(|()| graph));
        thread.join().unwrap()
    })?;
    let mut host = compute.adopt(gpu.pinned::<f32>(64)?)?;
    compute.copy_to_host(&graph.into_inner(), &mut host)?;
    assert_eq!(compute.release(host)?.synchronize()?[31..33], [1.0, 0.0]);
    Ok(())
}
