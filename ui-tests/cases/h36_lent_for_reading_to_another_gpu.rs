// H36 (E0271): a buffer is lent for reading to a stream of another GPU.
// Twin: h23_scopes_mixed_by_recursion
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let download = Device::open_gpu::<1>()?.stream::<Download<Gpu<1>>>()?;
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut copy = download.alloc_zeroed::<f32>(1024)?;
    compute.lend_ref(&download, &frame, |lent| download.copy(lent, &mut copy))??;
    Ok(())
}
