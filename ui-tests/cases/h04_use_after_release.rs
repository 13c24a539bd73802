// H04 (E0382): `Compute` reads a frame after giving it up, when the next owner may be writing it.
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
    let mut copy = compute.alloc_zeroed::<f32>(1024)?;
    let handoff = compute.release(frame)?;
    compute.copy(&frame, &mut copy)?;
    download.acquire(handoff)?;
    Ok(())
}
