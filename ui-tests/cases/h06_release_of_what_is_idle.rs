// H06 (E0277): pinned memory that no stream has used is released by one.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let host = gpu.pinned::<f32>(1024)?;
    let host = download.acquire(compute.release(host)?)?;
    drop(host);
    Ok(())
}
