// H11 (E0277): one half of a buffer is read on a stream that does not own the buffer.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let (low, high) = frame.split_at_mut(512);
    let mut host = download.adopt(gpu.pinned::<f32>(512)?)?;
    compute.fill(low, 1.0)?;
    download.copy_to_host(high, &mut host)?;
    Ok(())
}
