// H01 (E0277): a stream lends a buffer that another stream writes.
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
    let (input, mut output) = (download.alloc_zeroed::<f32>(1024)?, compute.alloc_zeroed::<f32>(1024)?);
    compute.lend_all(&download, (&input, &mut output), |_| ())?;
    Ok(())
}
