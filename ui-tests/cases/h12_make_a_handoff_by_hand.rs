// H12 (E0451): a handoff is put together by hand, with no event behind it.
// Twin: h01_read_without_handoff
#![forbid(unsafe_code)]
use std::mem::ManuallyDrop;

use cuda_rt::{Device, Error, Handoff};

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let handoff = Handoff {
        bundle: ManuallyDrop::new(gpu.pinned::<f32>(1024)?),
        fence: made_up(),
    };
    drop(handoff);
    Ok(())
}

fn made_up<T>() -> T {
    panic!("there is no event")
}
