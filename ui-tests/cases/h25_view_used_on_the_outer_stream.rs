// H25 (E0277): what is captured is given to the real stream, which runs it at once and only once.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |_, mut view| {
        compute.fill(&mut view, 1.0)
    })?;
    drop(graph);
    Ok(())
}
