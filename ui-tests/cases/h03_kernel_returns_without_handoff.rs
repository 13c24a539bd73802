// H03 (E0277): a kernel returns into memory of another stream, which may still be writing it.
// Twin: h03_two_streams_write
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Grid1};
use device_kernels::add;

cuda_rt::streams! {
    Compute;
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    let ones = compute.alloc_from_slice(&[1.0; 64])?;
    let sum = upload.alloc_uninit::<f32>(64)?;
    add(&compute, Grid1::covering(64), &ones, &ones, sum)?;
    let mut sum = upload.alloc_zeroed::<f32>(64)?;
    add(&compute, Grid1::covering(64), &ones, &ones, &mut sum)?;
    Ok(())
}
