// H16 (E0506): pinned memory is replaced, and goes back to its pool, while a view of it is still to
// be copied.
// Twin: h16_drop_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let mut host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    let mut frame = upload.alloc_zeroed::<f32>(512)?;
    let half = &host[..512];
    host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    upload.copy_to_device(half, &mut frame)?;
    Ok(())
}
