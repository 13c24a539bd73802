// H36 (E0277): a buffer of GPU 0 is acquired by a stream of GPU 1.
// Twin: h23_scopes_mixed_by_recursion
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let other = Device::open_gpu::<1>()?.stream::<Compute<Gpu<1>>>()?;
    let frame = other.acquire(compute.release(compute.alloc_zeroed::<f32>(1024)?)?)?;
    drop(frame);
    Ok(())
}
