// H06 (E0277): one event is to stand for a bundle, a part of which another stream is using.
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
    let host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    let (frame, host) = compute.release((frame, host))?.synchronize()?;
    drop((frame, host));
    Ok(())
}
