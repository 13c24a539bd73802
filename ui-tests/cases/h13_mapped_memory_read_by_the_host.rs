// H13 (E0277): the host reads pinned memory that a kernel writes in place.
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
    let input = compute.alloc_zeroed::<f32>(1024)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    scale(&compute, Grid1::covering(1024), &input, compute.mapped_mut(&mut host)?, 2.0)?;
    compute.synchronize()?;
    println!("{}", host[0]);
    Ok(())
}
