// H13 (E0277): the stream was waited for, but work enqueued since then by another thread may still
// write the memory.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.synchronize()?;
    println!("{}", host[0]);
    Ok(())
}
