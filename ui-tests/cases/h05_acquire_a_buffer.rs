// H05 (E0277): a buffer is acquired that nobody released: no event says when its owner is done.
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
    let frame = download.acquire(frame)?;
    drop(frame);
    Ok(())
}
