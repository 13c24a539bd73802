// H25 (E0277): the host waits for a stream that is only recording.
// Twin: h25_pinned_memory_adopted_in_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        stream.fill(&mut view, 1.0)?;
        stream.synchronize()
    })?;
    drop(graph);
    Ok(())
}
