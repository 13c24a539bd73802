// H25 (E0599): two graphs of one capture would write the same buffers on two streams.
// Twin: h25_graph_launched_from_two_threads
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let buffer = compute.alloc_zeroed::<f32>(64)?;
    let mut graph = compute.capture(buffer, |stream, mut view| stream.fill(&mut view, 1.0))?;
    let mut second = graph.clone();
    graph.launch(&compute)?;
    second.launch(&compute)?;
    Ok(())
}
