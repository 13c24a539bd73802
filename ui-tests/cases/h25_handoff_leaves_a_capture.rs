// H25 (E0521): a handoff made while capturing is acquired outside, where nothing has run.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut kept = None;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, _| {
        kept = Some(stream.release(stream.alloc_zeroed::<f32>(1024)?)?);
        Ok(())
    })?;
    drop((graph, kept));
    Ok(())
}
