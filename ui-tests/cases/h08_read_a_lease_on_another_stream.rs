// H08 (E0277): a lease of `Download` is read on `Upload`, which has not waited for the writer.
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
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let lease = download.lease(&shared)?;
    let mut host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    upload.copy_to_host(&lease.view(), &mut host)?;
    Ok(())
}
