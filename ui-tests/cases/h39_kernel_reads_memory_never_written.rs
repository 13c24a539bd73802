// H39 (E0308): a kernel gets memory that nothing wrote as its input.
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
    let (never, ones) = (compute.alloc_uninit::<f32>(64)?, compute.alloc_from_slice(&[1.0; 64])?);
    add(&compute, Grid1::covering(64), &never, &ones, compute.alloc_uninit(64)?)?;
    Ok(())
}
