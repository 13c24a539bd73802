// H18 (E0308): a worker gets a buffer that a stream still owns.
// Twin: h18_in_flight_buffer_sent_as_ready
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
    send.send(host).unwrap();
    drop(worker);
    Ok(())
}
