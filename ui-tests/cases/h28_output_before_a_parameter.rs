// H28 (E0277, E0308): the output of a kernel that returns stands before a parameter of the kernel.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

cuda_rt::streams! {
    Compute;
}

#[kernel]
pub fn scaled(i: Index1, x: &[f32], factor: f32) -> f32 {
    factor * x[i.get()]
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let x = compute.alloc_zeroed::<f32>(1024)?;
    let mut y = scaled(&compute, Grid1::covering(1024), &x, 2.0, compute.alloc_uninit(1024)?)?;
    scaled(&compute, Grid1::covering(1024), &x, compute.alloc_uninit(1024)?, 2.0)?;
    scaled(&compute, Grid1::covering(1024), &x, &mut y, 2.0)?;
    Ok(())
}
