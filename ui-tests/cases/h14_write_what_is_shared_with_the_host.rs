// H14 (E0596): the host writes pinned memory that it shares with an upload.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let shared = cuda_rt::Shared::new(gpu.pinned::<f32>(1024)?);
    let lease = compute.lease(&shared)?;
    let frame = compute.init_from_host(compute.alloc_uninit(1024)?, &lease.view())?;
    shared.host()?[0] = 1.0;
    drop(download.acquire(compute.release(frame)?)?);
    Ok(())
}
