// H08, mended: the graph reads the weights and writes its own buffer. The weights are written after
// the graph is dropped.
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
    let weights = download.share(download.init_filled(download.alloc_uninit::<f32>(1024)?, 3.0)?)?;
    let bundle = (compute.lease(&weights)?, compute.alloc_zeroed::<f32>(1024)?);
    let mut graph = compute.capture(bundle, |stream, (weights, mut out)| stream.copy(&weights, &mut out))?;
    graph.launch(&compute)?;
    let (lease, out) = graph.into_inner();
    let lease = download.acquire(compute.release(lease)?)?;
    drop(lease);
    let mut weights = download.acquire(weights.reclaim().expect("no lease is out"))?;
    download.fill(&mut weights, 4.0)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    compute.copy_to_host(&out, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [3.0; 1024]);
    Ok(())
}
