// H18 (E0308): a worker gets a buffer that the download is still filling.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, PinnedBuffer};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let (send, worker) = std::sync::mpsc::channel::<PinnedBuffer<f32>>();
    let host = download.adopt(gpu.pinned::<f32>(1024)?)?;
    send.send(download.release(host)?).unwrap();
    drop(worker);
    Ok(())
}
