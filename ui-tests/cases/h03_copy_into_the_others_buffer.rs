// H03 (E0277): `Compute` copies its result into a buffer that belongs to `Download`.
// Twin: h03_two_streams_write
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let result = compute.alloc_zeroed::<f32>(1024)?;
    let mut frame = download.alloc_zeroed::<f32>(1024)?;
    compute.copy(&result, &mut frame)
}
