// H25 (E0277): a capture is begun on a stream that is being captured.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, _| {
        let inner = stream.capture(stream.alloc_zeroed::<f32>(64)?, |_, _| Ok(()))?;
        drop(inner);
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
