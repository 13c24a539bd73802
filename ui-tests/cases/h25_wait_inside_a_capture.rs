// H25 (E0277): the host waits for work that is only being recorded.
// Twin: h25_pinned_memory_adopted_in_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, _| {
        let frame = stream.release(stream.alloc_zeroed::<f32>(1024)?)?.synchronize()?;
        drop(frame);
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
