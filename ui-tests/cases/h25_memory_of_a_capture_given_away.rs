// H25 (E0277): memory of a graph, which exists while a launch runs, is given away by its
// address.
// Twin: h25_foreign_memory_in_a_capture
#![deny(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

#[allow(unsafe_code)]
fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, mut frame| {
        let memory = stream.alloc_zeroed::<f32>(64)?;
        stream.copy(&memory, &mut frame)?;
        let (_address, _len) = memory.into_raw();
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
