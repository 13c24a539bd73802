// H36 (E0277): pinned memory of GPU 0's pool is adopted by a stream of GPU 1.
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
    let host = other.adopt(gpu.pinned::<f32>(1024)?)?;
    drop((host, compute));
    Ok(())
}
