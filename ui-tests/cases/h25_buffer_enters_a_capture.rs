// H25 (E0277): a graph would replay the use of a buffer that it does not own, and that may be
// freed.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let outside = compute.alloc_zeroed::<f32>(1024)?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        stream.copy(&outside, &mut view)
    })?;
    drop(graph);
    Ok(())
}
