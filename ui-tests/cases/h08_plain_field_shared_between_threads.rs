// H08 (E0277): a shared bundle has a plain field that threads may not share.
// Twin: h08_write_through_a_lease
#![forbid(unsafe_code)]
use std::cell::Cell;
use std::marker::PhantomData;

use cuda_rt::{Device, DeviceBuffer, Error, Idle, Place, Bundle};

cuda_rt::streams! {
    Compute;
}

#[derive(Clone, Copy)]
struct OfOneThread(PhantomData<Cell<u8>>);

#[derive(Bundle)]
struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<u8, P>,
    #[bundle(plain)]
    mark: OfOneThread,
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = Frame {
        pixels: compute.alloc_zeroed::<u8>(64)?,
        mark: OfOneThread(PhantomData),
    };
    let shared = compute.share(frame)?;
    std::thread::spawn(move || drop(shared));
    Ok(())
}
