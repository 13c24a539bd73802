// H11 (E0521): a lent view is kept past the loan, when its owner writes it again.
// Twin: h11_view_read_on_another_stream
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
    compute.lend(&download, &mut frame, |view| kept = Some(view))?;
    drop(kept);
    Ok(())
}
