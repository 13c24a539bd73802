// H25 (E0499): a view of the bundle that a graph gives back is used as if the graph still had it.
// Twin: h25_updated_between_launches
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let (first, second) = (compute.alloc_zeroed::<f32>(64)?, compute.alloc_zeroed::<f32>(64)?);
    let mut graph = compute.capture(first, |stream, mut view| stream.fill(&mut view, 1.0))?;
    let mut view = graph.views();
    let first = graph.replace(second, |stream, mut view| stream.fill(&mut view, 1.0))?;
    compute.fill(&mut view, 2.0)?;
    drop(first);
    Ok(())
}
