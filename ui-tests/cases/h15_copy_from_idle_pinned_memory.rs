// H15 (E0308): a copy reads pinned memory that the host still owns, and may be writing.
// Twin: h15_copy_from_a_vec
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let source = gpu.pinned::<f32>(1024)?;
    let mut frame = upload.alloc_zeroed::<f32>(1024)?;
    upload.copy_to_device(&source, &mut frame)?;
    Ok(())
}
