// H43 (E0277): a program asks the device for a stream that some closure has.
// Twin: h23_buffer_leaves_the_pool
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Pooled};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let stream = gpu.stream::<Pooled<'static>>()?;
    drop((stream, compute));
    Ok(())
}
