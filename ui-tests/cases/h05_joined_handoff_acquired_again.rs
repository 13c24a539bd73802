// H05 (E0382): a handoff is joined with another one, and acquired by itself as well.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Handoff};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let a = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    let b = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    let both = Handoff::join((a, b));
    let frame = download.acquire(a)?;
    drop((frame, both));
    Ok(())
}
