// H04 (E0505): a view made before the release is used after it.
// Twin: h04_use_after_release
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let half = &mut frame[..512];
    let handoff = compute.release(frame)?;
    compute.fill(half, 1.0)?;
    download.acquire(handoff)?;
    Ok(())
}
