// H04 (E0382): a half is written after it was handed over.
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
    let mut second = first.split_off(512);
    let handoff = compute.release(second)?;
    compute.fill(&mut second, 1.0)?;
    drop(download.acquire(handoff)?);
    Ok(())
}
