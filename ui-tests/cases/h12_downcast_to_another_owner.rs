// H12 (E0308): a downcast tells the same buffer's type, so another owner is never found there.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, Error};
use std::any::Any;

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frame: Box<dyn Any> = Box::new(compute.alloc_zeroed::<f32>(64)?);
    let frame: Box<DeviceBuffer<f32, Download>> = frame.downcast::<DeviceBuffer<f32, Compute>>().unwrap();
    drop((frame, download));
    Ok(())
}
