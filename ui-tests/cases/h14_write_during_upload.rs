// H14 (E0277): the host writes pinned memory that the upload may still be reading.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let mut host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    let mut frame = upload.alloc_zeroed::<f32>(1024)?;
    upload.copy_to_device(&host, &mut frame)?;
    host[0] = 1.0;
    Ok(())
}
