// H30 (E0277): a stream uploads write-combined memory that the host may be writing, and memory of
// another stream (H01).
// Twin: h14_write_combined_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
    Other;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (upload, other) = (gpu.stream::<Upload>()?, gpu.stream::<Other>()?);
    let mut on_device = upload.alloc_zeroed::<f32>(1024)?;
    let frame = gpu.write_combined::<f32>(1024)?;
    upload.copy_to_device(&frame, &mut on_device)?;
    let frame = other.adopt(frame)?;
    upload.copy_to_device(&frame, &mut on_device)
}
