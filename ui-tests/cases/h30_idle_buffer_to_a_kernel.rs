// H30 (E0277): a kernel is given a buffer that belongs to no stream, and may be given to any.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let input = compute
        .release(compute.alloc_zeroed::<f32>(1024)?)?
        .synchronize()?;
    let mut output = compute.alloc_zeroed::<f32>(1024)?;
    scale(&compute, Grid1::covering(1024), &input, &mut output, 2.0)
}
