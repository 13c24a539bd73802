// H38 (E0200): a buffer of one GPU is declared to be a rank of another.
// Twin: h38_buffer_used_in_flight
#![forbid(unsafe_code)]
use cuda_rt::{Communicator, Device, DeviceBuffer, Error, Gpu, InPlace, Rank};

cuda_rt::streams! {
    Compute;
}

#[derive(Clone, Copy)]
struct Mine;

type Forged<'a> = (Rank<'a, Compute, DeviceBuffer<Mine, Compute>>,);

impl InPlace<Mine, (Gpu<1>,)> for Forged<'_> {
    type Buffers = (DeviceBuffer<Mine, Compute>,);
}

fn main() -> Result<(), Error> {
    let other = Device::open_gpu::<1>()?;
    let ranks = Communicator::new((&other,))?;
    ranks.status()
}
