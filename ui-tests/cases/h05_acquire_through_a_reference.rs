// H05 (E0277): a handoff is acquired by reference, and stays where a second stream can acquire it.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let queue = vec![compute.release(compute.alloc_zeroed::<f32>(1024)?)?];
    let frame = download.acquire(&queue[0])?;
    drop(frame);
    Ok(())
}
