// H19 (E0499): a ring's slot is refilled by the closure that is still using it.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Slot};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let mut slot = Slot::new(gpu.pinned::<f32>(1024)?);
    let frame = download.alloc_zeroed::<f32>(1024)?;
    slot.on(&download, |host| {
        slot.on(&download, |_| ())?;
        download.copy_to_host(&frame, host)
    })??;
    Ok(())
}
