// H36 (E0277): a bundle of GPU 0 is leased to a stream of GPU 1.
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
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let lease = other.lease(&shared)?;
    drop(lease);
    Ok(())
}
