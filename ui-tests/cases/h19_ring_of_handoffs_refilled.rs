// H19 (E0508): a ring's next round takes a slot by index, and leaves a second owner in it.
// Twin: h19_slot_used_within_itself
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let slot = || download.release(download.adopt(gpu.pinned::<f32>(64)?)?);
    let ring = [slot()?, slot()?];
    for round in 0..4 {
        let mut host = download.acquire(ring[round % 2])?;
        download.copy_to_host(&download.alloc_zeroed::<f32>(64)?, &mut host)?;
    }
    Ok(())
}
