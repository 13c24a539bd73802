// H39 (E0369): the host computes with pinned memory that nothing wrote.
// Twin: h39_kernel_returns_its_element
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let host = gpu.pinned_uninit::<f32>(64)?;
    println!("{}", host[0] + 1.0);
    Ok(())
}
