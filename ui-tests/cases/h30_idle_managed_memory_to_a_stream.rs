// H30 (E0277): a stream fills managed memory that no stream owns, and that the host may be using.
// Twin: h13_managed_memory
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut data = gpu.managed::<f32>(1024)?;
    compute.fill(&mut data, 1.0)
}
