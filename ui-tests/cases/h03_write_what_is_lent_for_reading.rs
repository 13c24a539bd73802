// H03 (E0308): the borrower writes a view that was lent for reading.
// Twin: h02_written_while_lent_for_reading
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.lend_ref(&download, &frame, |lent| download.fill(lent, 1.0))??;
    Ok(())
}
