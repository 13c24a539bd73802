// H14 (E0277): the host writes write-combined memory while a graph is captured, although an earlier
// upload may read it.
// Twin: h14_write_combined_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let upload = gpu.stream::<Upload>()?;
    let frame = upload.adopt(gpu.write_combined::<f32>(1024)?)?;
    let bundle = (frame, upload.alloc_zeroed::<f32>(1024)?);
    let graph = upload.capture(bundle, |stream, (mut frame, mut data)| {
        frame.fill(.., 1.0)?;
        stream.copy_to_device(&frame, &mut data)
    })?;
    drop(graph);
    Ok(())
}
