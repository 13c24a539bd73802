// H04 (E0507): a buffer is taken out of a `Vec` by index, which would leave a second owner there.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frames = vec![compute.alloc_zeroed::<f32>(64)?, compute.alloc_zeroed::<f32>(64)?];
    let first = download.acquire(compute.release(frames[0])?)?;
    drop((first, frames));
    Ok(())
}
