// H42 (E0133): any number is taken for device memory, and given back to someone who may not own it.
// Twin: h42_foreign_memory_given_back
#![forbid(unsafe_code)]
use cuda_rt::driver::DeviceAddress;
use cuda_rt::{Device, DeviceBuffer, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let buffer = DeviceBuffer::<f32, _>::from_foreign(&compute, DeviceAddress(4096), 64, || ());
    drop(buffer);
    Ok(())
}
