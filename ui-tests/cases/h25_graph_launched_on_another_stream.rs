// H25 (E0308): a graph of `Compute` is launched on a stream that does not own its memory.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        stream.fill(&mut view, 1.0)
    })?;
    graph.launch(&download)?;
    Ok(())
}
