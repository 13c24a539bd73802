// H11 (E0502): a buffer is split while a view of all of it is still to be read.
// Twin: h11_part_read_on_another_stream
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
    let mut other = compute.alloc_zeroed::<f32>(1024)?;
    let view = &first[..];
    let second = download.acquire(compute.release(first.split_off(512))?)?;
    compute.copy(view, &mut other)?;
    drop(second);
    Ok(())
}
