// H25 (E0382): memory that later launches of a graph use is used by someone else.
// Twin: h25_updated_between_launches
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let (first, mut second) = (compute.alloc_zeroed::<f32>(64)?, compute.alloc_zeroed::<f32>(64)?);
    let mut graph = compute.capture(first, |stream, mut view| stream.fill(&mut view, 1.0))?;
    let first = graph.replace(second, |stream, mut view| stream.fill(&mut view, 1.0))?;
    graph.launch(&compute)?;
    compute.fill(&mut second, 2.0)?;
    drop(first);
    Ok(())
}
