// H30 (E0277): a stream copies into memory that belongs to no stream, and may be adopted by
// another.
// Twin: h06_release_of_what_is_idle
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let source = compute.alloc_zeroed::<f32>(64)?;
    let mut idle = compute.release(compute.alloc_zeroed::<f32>(64)?)?.synchronize()?;
    compute.copy(&source, &mut idle)?;
    Ok(())
}
