// H42 (E0133): an address that someone owns is given a second owner, who frees it too.
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
    let second = cuda_rt::DeviceBuffer::<f32, Compute>::from_raw(&compute, frame.address(), 64);
    drop((frame, second));
    Ok(())
}
