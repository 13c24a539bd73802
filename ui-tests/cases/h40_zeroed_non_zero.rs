// H40 (E0277): zero is no value of a `NonZeroU32`.
// Twin: h40_zeroed_references
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let ids = compute.alloc_zeroed::<std::num::NonZeroU32>(16)?;
    drop(ids);
    Ok(())
}
