// H13 (E0277): the host reads a pending download through the view that shows its length.
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
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    compute.copy_to_host(&frame, &mut host)?;
    let pending = compute.release(host)?;
    let first = pending.peek()[0];
    download.synchronize()?;
    drop(first);
    Ok(())
}
