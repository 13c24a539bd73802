// H12 (E0308): buffers of two streams are kept in one `Vec`, as if they had one owner.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frames = vec![
        compute.alloc_zeroed::<f32>(64)?,
        download.alloc_zeroed::<f32>(64)?,
    ];
    drop(frames);
    Ok(())
}
