// H21 (E0597): a view is kept for ever, but its buffer is not.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceSlice, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let view: &'static DeviceSlice<f32, Compute> = &frame;
    std::thread::spawn(move || println!("{}", view.len()));
    Ok(())
}
