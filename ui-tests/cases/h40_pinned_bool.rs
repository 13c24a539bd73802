// H40 (E0277): the GPU may write 2 into a `bool`.
// Twin: h40_zeroed_references
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let flags = gpu.pinned::<bool>(16)?;
    drop((flags, compute));
    Ok(())
}
