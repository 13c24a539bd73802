// H13 (E0277): the host reads pinned memory that was released, but not waited for.
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
    let handoff = download.release(host)?;
    println!("{}", handoff[0]);
    Ok(())
}
