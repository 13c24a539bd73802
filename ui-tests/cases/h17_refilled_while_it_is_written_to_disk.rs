// H17 (E0382): the next download fills a buffer that a worker is still writing to disk.
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
    let host = download.release(host)?.synchronize()?;
    send.send(host).unwrap();
    let mut next = download.adopt(host)?;
    download.copy_to_host(&download.alloc_zeroed::<f32>(1024)?, &mut next)?;
    drop(worker);
    Ok(())
}
