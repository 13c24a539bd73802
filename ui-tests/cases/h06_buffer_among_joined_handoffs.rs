// H06 (E0277): a buffer that was not released is taken over with a handoff.
// Twin: h05_joined_handoff_acquired_again
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let a = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    let b = compute.alloc_zeroed::<f32>(1024)?;
    let both = download.acquire_all((a, b))?;
    drop(both);
    Ok(())
}
