// H16 (E0505): the host keeps a slice of pinned memory that it gave to the stream.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let host = gpu.pinned::<f32>(1024)?;
    let first = &host[0];
    let mut lent = download.adopt(host)?;
    download.copy_to_host(&download.alloc_zeroed::<f32>(1024)?, &mut lent)?;
    println!("{first}");
    Ok(())
}
