// H11 (E0277): the second half of a frame, an owner of its own, is read on a stream that it was not
// handed to.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let mut first = compute.alloc_zeroed::<f32>(1024)?;
    let second = first.split_off(512);
    let mut host = download.adopt(gpu.pinned::<f32>(512)?)?;
    compute.fill(&mut first, 1.0)?;
    download.copy_to_host(&second, &mut host)?;
    Ok(())
}
