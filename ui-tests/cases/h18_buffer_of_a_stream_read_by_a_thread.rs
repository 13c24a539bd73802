// H18 (E0308): a thread is given memory that a stream still fills, for memory that is ready.
// Twin: h18_in_flight_buffer_sent_as_ready
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, PinnedBuffer};

cuda_rt::streams! {
    Download;
}

fn save(host: PinnedBuffer<u8>) {
    println!("{}", host[0]);
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let frame = download.alloc_zeroed::<u8>(1024)?;
    let mut host = download.adopt(gpu.pinned::<u8>(1024)?)?;
    download.copy_to_host(&frame, &mut host)?;
    std::thread::spawn(move || save(host)).join().unwrap();
    Ok(())
}
