// H17 (E0505): a thread writes memory to disk while the next download fills it.
// Twin: h17_refilled_while_it_is_written_to_disk
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let frame = download.alloc_zeroed::<u8>(1024)?;
    let host = gpu.pinned::<u8>(1024)?;
    let bytes = &host[..];
    std::thread::scope(|scope| {
        scope.spawn(move || std::fs::write("frame", bytes));
        let mut next = download.adopt(host)?;
        download.copy_to_host(&frame, &mut next)
    })?;
    Ok(())
}
