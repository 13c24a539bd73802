// H20 (E0597): a thread outlives the function whose pinned memory it uploads.
// Twin: h20_borrow_in_flight
#![forbid(unsafe_code)]
use cuda_rt::{Device, DeviceBuffer, Error};

cuda_rt::streams! {
    Upload;
}

fn start(gpu: &Device, mut frame: DeviceBuffer<f32, Upload>) -> Result<(), Error> {
    let upload = gpu.stream::<Upload>()?;
    let host = upload.adopt(gpu.pinned::<f32>(1024)?)?;
    let view = &host[..];
    std::thread::spawn(move || upload.copy_to_device(view, &mut frame).map(drop));
    Ok(())
}

fn main() {}
