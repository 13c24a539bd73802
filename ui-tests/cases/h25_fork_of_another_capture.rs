// H25 (E0521): a stream of one capture works on the memory of another one.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |_, mut outer| {
        let inner = compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, _| {
            stream.fill(&mut outer, 1.0)
        })?;
        drop(inner);
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
