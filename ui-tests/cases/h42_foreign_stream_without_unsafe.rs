// H42 (E0133): a number is taken for a stream that someone else keeps alive.
// Twin: h42_foreign_call_without_unsafe
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_zeroed::<f32>(64)?;
    gpu.adopt_stream(compute.raw(), |stream| stream.synchronize())?;
    drop(frame);
    Ok(())
}
