// H05 (E0382): two streams acquire one handoff, and race.
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
    let one = download.acquire(handoff)?;
    let two = upload.acquire(handoff)?;
    drop((one, two));
    Ok(())
}
