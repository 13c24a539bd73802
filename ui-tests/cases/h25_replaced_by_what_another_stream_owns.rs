// H25 (E0308): a graph of `Compute` is given memory that `Download` may still be writing.
// Twin: h25_updated_between_launches
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let (first, second) = (compute.alloc_zeroed::<f32>(64)?, download.alloc_zeroed::<f32>(64)?);
    let mut graph = compute.capture(first, |stream, mut view| stream.fill(&mut view, 1.0))?;
    let first = graph.replace(second, |stream, mut view| stream.fill(&mut view, 1.0))?;
    drop(first);
    Ok(())
}
