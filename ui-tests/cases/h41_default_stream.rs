// H41 (E0599): work on the default stream waits for all others, and all others for it. No method
// gives it out.
// Twin: h01_read_without_handoff
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let stream = gpu.default_stream()?;
    let frame = stream.alloc_zeroed::<f32>(1024)?;
    drop(frame);
    Ok(())
}
