// H39 (E0277): a kernel writes a part of a buffer, and all of the buffer is read.
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
    let mut sums = compute.alloc_uninit::<f32>(1024)?;
    let part = add(&compute, Grid1::covering(64), &ones, &ones, &mut sums[..64])?;
    compute.copy_to_vec(part)?;
    compute.copy_to_vec(&sums)?;
    Ok(())
}
