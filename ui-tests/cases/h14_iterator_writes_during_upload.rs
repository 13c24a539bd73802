// H14 (E0277): the host fills pinned memory through an iterator while it is uploaded.
// Twin: h14_write_during_upload
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
    host.iter_mut().for_each(|value| *value += 1.0);
    Ok(())
}
