// H41 (E0599): `Default` would give the default stream, if a stream had one.
// Twin: h01_read_without_handoff
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Stream};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let stream = Stream::<Compute>::default();
    drop((stream, compute));
    Ok(())
}
