// H03 (E0277): a channel carries a buffer to the thread of another stream, which writes it.
// Twin: h03_two_streams_write
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Upload;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
    let (send, receive) = std::sync::mpsc::channel();
    send.send(compute.alloc_zeroed::<f32>(1024)?).unwrap();
    let mut frame = receive.recv().unwrap();
    upload.fill(&mut frame, 2.0)?;
    Ok(())
}
