// H36 (E0277): GPU 1 is asked for the compute stream of GPU 0.
// Twin: h23_scopes_mixed_by_recursion
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let other = Device::open_gpu::<1>()?;
    let stream = other.stream::<Compute>()?;
    drop((stream, compute));
    Ok(())
}
