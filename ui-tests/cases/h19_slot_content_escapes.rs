// H19 (E0521): what a slot lends is kept for a later round, when the slot holds the next frame.
// Twin: h19_slot_used_within_itself
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Slot};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let mut slot = Slot::new(gpu.pinned::<f32>(1024)?);
    let mut kept = None;
    slot.on(&download, |host| kept = Some(host))?;
    slot.on(&download, |_| ())?;
    drop(kept);
    Ok(())
}
