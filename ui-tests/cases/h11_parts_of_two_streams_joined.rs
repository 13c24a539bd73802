// H11 (E0308): halves that two streams own become one buffer of one stream.
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
    let second = first.split_off(512);
    let second = download.acquire(compute.release(second)?)?;
    let whole = first.join(second)?;
    drop(whole);
    Ok(())
}
