// H39 (E0277): a kernel returns into a borrowed buffer that nothing wrote: the buffer's type would
// still say so afterwards.
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
    let mut sum = compute.alloc_uninit::<f32>(64)?;
    add(&compute, Grid1::covering(64), &ones, &ones, &mut sum)?;
    Ok(())
}
