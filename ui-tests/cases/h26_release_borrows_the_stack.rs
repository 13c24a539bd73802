// H26 (E0597): what gives foreign memory back runs when the last use is over, and the stack may be
// gone by then.
// Twin: h42_foreign_memory_given_back
#![deny(unsafe_code)]
use cuda_rt::driver::DeviceAddress;
use cuda_rt::{Device, DeviceBuffer, Error};

cuda_rt::streams! {
    Compute;
}

#[allow(unsafe_code)]
fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let released = std::sync::atomic::AtomicBool::new(false);
    let flag = &released;
    let release = move || flag.store(true, std::sync::atomic::Ordering::Relaxed);
    // SAFETY: no memory at all.
    let empty = unsafe { DeviceBuffer::<f32, _>::from_foreign(&compute, DeviceAddress(0), 0, release) };
    drop(empty);
    Ok(())
}
