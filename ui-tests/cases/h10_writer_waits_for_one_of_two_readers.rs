// H10 (E0277): a writer waits for one reader while another still reads. Only `reclaim` leads back
// to the frame, and waits for all.
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
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let (one, two) = (download.lease(&shared)?, upload.lease(&shared)?);
    let frame = compute.acquire(one)?;
    drop((frame, two));
    Ok(())
}
