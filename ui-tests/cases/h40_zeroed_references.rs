// H40 (E0277): zero is no value of a reference.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let names = compute.alloc_zeroed::<&'static str>(16)?;
    drop(names);
    Ok(())
}
