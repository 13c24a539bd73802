// H13 (E0277): the host reads pinned memory of a variant while its download is pending: the variant
// is known, its memory is not.
// Twin: h06_derive_for_an_enum
#![forbid(unsafe_code)]
use cuda_rt::{Bundle, Device, DeviceBuffer, Error, Idle, PinnedBuffer, Place};

cuda_rt::streams! {
    Compute;
}

#[derive(Bundle)]
enum Frame<P: Place = Idle> {
    Device(DeviceBuffer<u8, P>),
    Host(PinnedBuffer<u8, P>),
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let pixels = compute.alloc_zeroed::<u8>(64)?;
    let mut host = compute.adopt(gpu.pinned::<u8>(64)?)?;
    compute.copy_to_host(&pixels, &mut host)?;
    let pending = compute.release(Frame::Host(host))?;
    if let FrameRef::Host(view) = pending.peek() {
        println!("{}", view[0]);
    }
    Ok(())
}
