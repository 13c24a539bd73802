// H36 (E0277): what two GPUs made becomes one bundle.
// Twin: h05_joined_handoff_acquired_again
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let other = Device::open_gpu::<1>()?.stream::<Compute<Gpu<1>>>()?;
    let a = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    let b = other.release(other.alloc_zeroed::<f32>(1024)?)?;
    let both = compute.acquire_all((a, b))?;
    drop(both);
    Ok(())
}
