// H09 (E0505): the shared frame is reclaimed and overwritten while a view of it is in use.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let lease = download.lease(&shared)?;
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    let view = lease.view();
    drop(lease);
    let frame = shared.reclaim();
    download.copy_to_host(&view, &mut host)?;
    drop(frame);
    Ok(())
}
