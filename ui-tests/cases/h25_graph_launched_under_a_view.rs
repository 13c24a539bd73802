// H25 (E0499): a graph is launched while a view of its memory is in use.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        stream.fill(&mut view, 1.0)
    })?;
    let mut view = graph.views();
    graph.launch(&compute)?;
    compute.fill(&mut view, 2.0)?;
    Ok(())
}
