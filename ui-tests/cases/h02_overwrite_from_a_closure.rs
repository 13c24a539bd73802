// H02 (E0382): a closure that reads a frame takes it along, and the frame is overwritten before the
// closure is done.
// Twin: h02_overwrite_while_read
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
    let read = || {
        let reading = download.acquire(compute.release(frame)?)?;
        let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
        download.copy_to_host(&reading, &mut host)
    };
    read()?;
    compute.fill(&mut frame, 2.0)?;
    Ok(())
}
