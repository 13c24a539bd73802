// H36 (E0277): one event is to stand for memory of two GPUs.
// Twin: h23_scopes_mixed_by_recursion
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let other = Device::open_gpu::<1>()?;
    let bundle = (gpu.pinned::<f32>(64)?, other.pinned::<f32>(64)?);
    let bundle = compute.adopt(bundle)?;
    drop(bundle);
    Ok(())
}
