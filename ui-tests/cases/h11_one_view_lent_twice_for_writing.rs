// H11 (E0499): one buffer is lent twice, for writing.
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
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.lend_all(&download, (&mut frame, &mut frame), |_| ())?;
    Ok(())
}
