// H16 (E0505): pinned memory is dropped while a view of it is still to be copied.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    let mut frame = upload.alloc_zeroed::<f32>(512)?;
    let half = &host[..512];
    drop(host);
    upload.copy_to_device(half, &mut frame)?;
    Ok(())
}
