// H43 (E0521): the stream of a capture is used when it is over.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut kept = None;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, _| {
        kept = Some(stream.clone());
        Ok(())
    })?;
    drop((graph, kept));
    Ok(())
}
