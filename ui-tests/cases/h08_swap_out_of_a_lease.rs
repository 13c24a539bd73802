// H08 (E0308): a reader swaps a buffer of its own for the shared one.
// Twin: h08_write_through_a_lease
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let shared = compute.share(compute.alloc_zeroed::<f32>(1024)?)?;
    let lease = download.lease(&shared)?;
    let mut mine = download.alloc_zeroed::<f32>(1024)?;
    std::mem::swap(&mut mine, &mut lease.view());
    Ok(())
}
