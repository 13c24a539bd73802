// H11 (lifetime): a future uses a lent view after the loan has ended.
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
    let mut frame = compute.alloc_zeroed::<f32>(64)?;
    let later = compute.lend(&download, &mut frame, |view| async { download.fill(view, 1.0) })?;
    drop(later);
    Ok(())
}
