// H16 (E0382): pinned memory is reused by the host while the stream owns it.
// Twin: h14_write_during_upload
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let mut host = gpu.pinned::<f32>(1024)?;
    let mut frame = upload.alloc_zeroed::<f32>(1024)?;
    upload.copy_to_device(&upload.adopt(host)?, &mut frame)?;
    host[0] = 1.0;
    Ok(())
}
