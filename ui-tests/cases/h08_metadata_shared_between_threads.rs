// H08 (E0277): a shared bundle has metadata that threads may not share.
// Twin: h06_derive_for_an_enum
#![forbid(unsafe_code)]
use std::cell::Cell;

use cuda_rt::{Bundle, Device, DeviceBuffer, Error, Idle, Metadata, Place};

cuda_rt::streams! {
    Compute;
}

#[derive(Bundle)]
struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<u8, P>,
    count: Metadata<Cell<u8>, P>,
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = Frame {
        pixels: compute.alloc_zeroed::<u8>(64)?,
        count: Metadata::new(Cell::new(0)),
    };
    let pending = compute.release(frame)?;
    std::thread::spawn(move || drop(pending));
    Ok(())
}
