// H01 (E0277): a stream maps pinned memory that another stream owns, for reading and for writing.
// Twin: h13_mapped_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Other;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, other) = (gpu.stream::<Compute>()?, gpu.stream::<Other>()?);
    let mut host = compute.adopt(gpu.pinned::<f32>(1024)?)?;
    let _ = other.mapped(&host)?;
    let _ = other.mapped_mut(&mut host)?;
    Ok(())
}
