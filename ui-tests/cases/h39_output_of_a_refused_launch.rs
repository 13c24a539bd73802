// H39 (E0308): the launch was refused, and its output is read as if the kernel had written it.
// Twin: h39_kernel_returns_its_element
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::add;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let ones = compute.alloc_from_slice(&[1.0; 64])?;
    let sum = compute.alloc_uninit(64)?;
    let sum = add(&compute, Grid1::covering(63), &ones, &ones, sum).unwrap_or_else(|refused| refused.value);
    compute.copy_to_vec(&sum)?;
    Ok(())
}
