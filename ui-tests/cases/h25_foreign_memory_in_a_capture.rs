// H25 (E0277): a capture takes memory of another library over, which goes back when the
// body drops it, and each launch of the graph reads it.
// Twin: h25_foreign_memory_in_a_capture
#![deny(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, Error};

cuda_rt::streams! {
    Compute;
}

#[allow(unsafe_code)]
fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let (address, len) = compute.alloc_zeroed::<f32>(64)?.into_raw();
    let graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, mut frame| {
        // SAFETY: nothing else uses the memory before its release.
        let memory = unsafe { DeviceBuffer::<f32, _>::from_foreign(stream, address, len, || ()) };
        stream.copy(&memory, &mut frame)?;
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
