// H33 (E0277): a launch names an instance of a generic kernel that has no entry in the PTX.
// Twin: h33_generic_kernel
#![forbid(unsafe_code)]
use cuda_rt::{Device, Grid1, Result};
use library_kernels::generic::scale;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<()> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let input = compute.alloc_zeroed::<i32>(1000)?;
    let mut output = compute.alloc_zeroed::<i32>(1000)?;
    scale(&compute, Grid1::covering(1000), &input, &mut output, 2)
}
