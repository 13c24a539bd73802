// H13 (E0277): a thread reads what the stream of this one still downloads to.
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
    let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    download.copy_to_host(&frame, &mut host)?;
    std::thread::scope(|scope| {
        scope.spawn(|| println!("{}", host[0]));
    });
    Ok(())
}
