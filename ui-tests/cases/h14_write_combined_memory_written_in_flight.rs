// H14 (E0277): the host writes write-combined memory that a pending upload still reads.
// Twin: h14_write_combined_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let mut on_device = upload.alloc_zeroed::<f32>(1024)?;
    let mut frame = upload.adopt(gpu.write_combined::<f32>(1024)?)?;
    upload.copy_to_device(&frame, &mut on_device)?;
    upload.synchronize()?;
    frame.fill(.., 1.0)?;
    frame.copy_from_slice(..1, &[2.0])?;
    frame.write_with(.., |at| at as f32)?;
    Ok(())
}
