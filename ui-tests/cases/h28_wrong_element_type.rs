// H28 (E0308): a kernel for `f32` is given a buffer of `f64`.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let input = compute.alloc_zeroed::<f64>(1024)?;
    let mut output = compute.alloc_zeroed::<f32>(1024)?;
    scale(&compute, Grid1::covering(1024), &input, &mut output, 2.0)
}
