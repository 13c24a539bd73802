// H12 (E0308): what is taken out of an `Option` of one stream is put into one of another.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut frame = Some(compute.alloc_zeroed::<f32>(1024)?);
    let mut next = Some(download.alloc_zeroed::<f32>(1024)?);
    next.replace(frame.take().unwrap());
    frame = None;
    drop((frame, next));
    Ok(())
}
