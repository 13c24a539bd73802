// H01 (E0277): a mutex orders the host's threads, and says nothing of the streams.
// Twin: h01_read_on_another_thread
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};
use std::sync::{Arc, Mutex};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frame = Arc::new(Mutex::new(compute.alloc_zeroed::<f32>(1024)?));
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    let frame = frame.lock().unwrap();
    download.copy_to_host(&frame, &mut host)?;
    Ok(())
}
