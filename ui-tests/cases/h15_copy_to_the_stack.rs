// H15 (E0308): an asynchronous copy writes an array on the stack, after the function has returned.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let frame = download.alloc_zeroed::<f32>(1024)?;
    let mut result = [0.0f32; 1024];
    download.copy_to_host(&frame, &mut result)?;
    Ok(())
}
