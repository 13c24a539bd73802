// H03 (E0277): a thread writes on its own stream what another stream is writing.
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
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.fill(&mut frame, 1.0)?;
    std::thread::scope(|scope| {
        scope.spawn(|| upload.fill(&mut frame, 2.0));
    });
    Ok(())
}
