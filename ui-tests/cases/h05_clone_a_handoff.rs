// H05 (E0599): a handoff is cloned, so that two streams can acquire it.
// Twin: h05_acquire_twice
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download, upload) = (
        gpu.stream::<Compute>()?,
        gpu.stream::<Download>()?,
        gpu.stream::<Upload>()?,
    );
    let handoff = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    download.acquire(handoff.clone())?;
    upload.acquire(handoff)?;
    Ok(())
}
