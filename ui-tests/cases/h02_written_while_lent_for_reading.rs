// H02 (E0502): the owner writes a buffer while it has lent it for reading.
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
    compute.lend_ref(&download, &frame, |_| compute.fill(&mut frame, 1.0))??;
    Ok(())
}
