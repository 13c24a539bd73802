// H19 (E0061, E0277, E0608): a slot is read without waiting for its download.
// Twin: h19_slot_used_within_itself
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Slot};

cuda_rt::streams! {
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let download = gpu.stream::<Download>()?;
    let slot = Slot::new(gpu.pinned::<f32>(1024)?);
    println!("{}", slot.get()[0]);
    drop(download);
    Ok(())
}
