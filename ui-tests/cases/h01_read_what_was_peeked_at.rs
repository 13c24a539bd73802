// H01 (E0277): a stream reads a pending buffer through the view that shows its length.
// Twin: h13_read_what_was_peeked_at
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let pending = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    let mut copy = download.alloc_zeroed::<f32>(1024)?;
    download.copy(&pending.peek(), &mut copy)?;
    Ok(())
}
