// H42 (E0133): a view is made of an address, in no relation to the owner of the memory.
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
    let view = cuda_rt::DeviceSlice::<f32, Compute>::from_raw_parts_mut(frame.address(), 64);
    drop(frame);
    compute.fill(view, 1.0)
}
