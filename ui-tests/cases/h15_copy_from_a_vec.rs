// H15 (E0308): an asynchronous copy reads a `Vec`, which may be freed or changed under it.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let source = vec![1.0; 1024];
    let mut frame = upload.alloc_zeroed::<f32>(1024)?;
    upload.copy_to_device(&source, &mut frame)?;
    Ok(())
}
