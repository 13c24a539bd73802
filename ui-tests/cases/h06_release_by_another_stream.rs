// H06 (E0277): `Download` records the event, but the work that must be waited for is on `Compute`.
// Twin: h01_read_without_handoff
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let frame = download.acquire(download.release(frame)?)?;
    drop(frame);
    Ok(())
}
