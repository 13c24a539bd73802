// H42 (E0133): a driver call on a bare address, which nothing keeps alive or in order.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::simulator::{SimConfig, SimDriver};
use cuda_rt::driver::{Memory, RawStream};
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    SimDriver::new(SimConfig::default())
        .free(frame.address(), RawStream(1))
        .unwrap();
    Ok(())
}
