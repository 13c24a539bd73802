// H43 (E0277): a program asks the device for a stream that some capture is recording.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Captured, Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let stream = gpu.stream::<Captured<'static, Compute>>()?;
    drop((stream, compute));
    Ok(())
}
