// H14 (E0277): between replays of a graph the host reads write-combined memory, which it only
// writes.
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
    let mut graph = upload.capture(bundle, |stream, (frame, mut data)| {
        stream.copy_to_device(&frame, &mut data)
    })?;
    graph.launch(&upload)?;
    graph.host(|(mut frame, _)| {
        println!("{}", frame.as_slice()[0]);
        frame.as_mut_slice()[0] = 1.0;
    })
}
