// H29 (E0502): a kernel reads mapped memory that its own threads write.
// Twin: h13_mapped_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::scale;

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    let input = compute.mapped(&host)?;
    scale(&compute, Grid1::covering(1024), input, compute.mapped_mut(&mut host)?, 2.0)
}
