// H17 (E0505): a writer borrows memory until it is flushed, and the next download fills it before.
// Twin: h17_refilled_while_it_is_written_to_disk
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

struct Writer<'a> {
    queued: Vec<&'a [u8]>,
}

impl Writer<'_> {
    fn flush(self) {
        self.queued.iter().for_each(|bytes| println!("{}", bytes.len()));
    }
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let frame = download.alloc_zeroed::<u8>(1024)?;
    let host = gpu.pinned::<u8>(1024)?;
    let writer = Writer { queued: vec![&host] };
    let mut next = download.adopt(host)?;
    download.copy_to_host(&frame, &mut next)?;
    writer.flush();
    Ok(())
}
