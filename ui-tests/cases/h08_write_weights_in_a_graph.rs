// H08 (E0596): a graph writes the weights that it was given a lease of, while others read them.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let weights = download.share(download.alloc_zeroed::<f32>(1024)?)?;
    let graph = compute.capture(compute.lease(&weights)?, |stream, mut weights| {
        stream.fill(&mut weights, 1.0)
    })?;
    drop(graph);
    Ok(())
}
