// H06 (E0277): a `Vec` of another stream's buffers is released.
// Twin: h04_release_one_of_a_vec
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frames = vec![compute.alloc_zeroed::<f32>(64)?];
    download.release(frames)?.synchronize()?;
    Ok(())
}
