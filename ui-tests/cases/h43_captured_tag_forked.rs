// H43 (E0271, E0277): a fork is asked for a captured tag, of some other capture.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Captured, Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, _| {
        let fork = stream.fork::<Captured<'_, Compute>>()?;
        drop(fork);
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
