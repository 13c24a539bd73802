// H25 (E0277): a capture takes memory over by its address, and each launch of the graph
// would free it.
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
        // SAFETY: the memory was given away, and nothing else uses it.
        let memory = unsafe { DeviceBuffer::<f32, _>::from_raw(stream, address, len) };
        stream.copy(&memory, &mut frame)?;
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
