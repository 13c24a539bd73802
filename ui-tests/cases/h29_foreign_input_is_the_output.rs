// H29 (E0502): a library is given one buffer to read and to write.
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
    let mut frame = frame;
    let call = compute.foreign("gemm").reads(&frame).writes(&mut frame);
    drop(call);
    Ok(())
}
