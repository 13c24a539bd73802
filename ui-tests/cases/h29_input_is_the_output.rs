// H29 (E0502): a kernel reads what its own threads are writing.
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
    scale(&compute, Grid1::covering(1024), &frame, &mut frame, 2.0)
}
