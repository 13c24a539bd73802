// H25, mended: the host copies the result out of the graph before the next launch.
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
    let frame = download.init_filled(download.alloc_uninit::<f32>(1024)?, 6.0)?;
    let frame = compute.acquire(download.release(frame)?)?;
    let bundle = (frame, compute.adopt(gpu.pinned::<f32>(1024)?)?);
    let mut graph = compute.capture(bundle, |stream, (data, mut host)| stream.copy_to_host(&data, &mut host))?;
    graph.launch(&compute)?;
    let kept = graph.host(|(_, host)| host.as_slice().to_vec())?;
    graph.host(|(_, mut host)| host.as_mut_slice().fill(0.0))?;
    graph.launch(&compute)?;
    assert_eq!(kept, [6.0; 1024]);
    graph.host(|(_, host)| assert_eq!(host.as_slice(), [6.0; 1024]))?;
    Ok(())
}
