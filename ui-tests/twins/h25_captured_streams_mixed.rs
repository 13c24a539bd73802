// H25, mended: inside a capture too, memory is handed over or lent.
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
    let mut graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, mut view| {
        let fork = stream.fork::<Download<D>>()?;
        let mut temporary = stream.alloc_zeroed::<f32>(64)?;
        stream.fill(&mut temporary, 3.0)?;
        let temporary = fork.acquire(stream.release(temporary)?)?;
        stream.lend(&fork, &mut view, |view| fork.copy(&temporary, view))?
    })?;
    graph.launch(&compute)?;
    let mut host = download.adopt(gpu.pinned::<f32>(64)?)?;
    let frame = download.acquire(compute.release(graph.into_inner())?)?;
    download.copy_to_host(&frame, &mut host)?;
    assert_eq!(*download.release(host)?.synchronize()?, [3.0; 64]);
    Ok(())
}
