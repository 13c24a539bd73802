// H11 (lifetime): one of several lent views is returned from the loan.
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
    let lent = compute.lend_all(&download, (&frame[..512], &frame[512..]), |(lent, _)| lent)?;
    compute.fill(&mut frame, 1.0)?;
    drop(lent);
    Ok(())
}
