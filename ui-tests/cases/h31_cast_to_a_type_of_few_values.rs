// H31 (E0277): memory of any bits is cast to `bool` and to references, of which few bits are
// values.
// Twin: h31_struct_without_repr_c
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer};

cuda_rt::streams! {
    Compute;
}

fn cast(device: DeviceBuffer<u8, Compute>, host: PinnedBuffer<u64>) -> Result<(), Error> {
    device.cast::<bool>()?;
    host.cast::<&'static u64>()?;
    Ok(())
}

fn main() {}
