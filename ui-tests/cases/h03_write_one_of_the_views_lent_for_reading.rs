// H03 (E0596): the borrower writes one of several views, which was lent for reading.
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
    let mut copy = compute.alloc_zeroed::<f32>(1024)?;
    compute.lend_all(&download, (&frame, &mut copy), |(mut lent, _)| download.fill(&mut lent, 1.0))??;
    Ok(())
}
