// H29 (E0502): the memory for what a kernel returns is also its input.
// Twin: h29_input_is_the_output
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::add;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut sum = compute.alloc_from_slice(&[1.0; 64])?;
    let ones = compute.alloc_from_slice(&[1.0; 64])?;
    add(&compute, Grid1::covering(64), &sum, &ones, &mut sum)
}
