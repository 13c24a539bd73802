// H29 (E0502): input and output of a kernel overlap.
// Twin: h29_input_is_the_output
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    scale(
        &compute,
        Grid1::covering(600),
        &frame[..600],
        &mut frame[400..1000],
        2.0,
    )
}
