// H12 (E0451): a handoff is put together from a buffer, with no event behind it.
// Twin: h01_read_without_handoff
#![forbid(unsafe_code)]
use std::mem::ManuallyDrop;

use cuda_rt::{Device, Error, Handoff};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let handoff = Handoff {
        bundle: ManuallyDrop::new(frame),
        fence: Default::default(),
    };
    download.acquire(handoff)?;
    Ok(())
}
