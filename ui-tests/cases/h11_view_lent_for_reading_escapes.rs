// H11 (E0521): a view lent for reading is kept past the loan, when its owner writes it again.
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
    let mut kept = None;
    compute.lend_ref(&download, &frame, |lent| kept = Some(lent))?;
    compute.fill(&mut frame, 1.0)?;
    drop(kept);
    Ok(())
}
