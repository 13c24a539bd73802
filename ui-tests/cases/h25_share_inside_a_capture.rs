// H25 (E0277): a bundle of a capture is shared: `reclaim` would tell when its readers were
// recorded, not when they ran.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, _| {
        let shared = stream.share(stream.alloc_zeroed::<f32>(1024)?)?;
        drop(shared);
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
