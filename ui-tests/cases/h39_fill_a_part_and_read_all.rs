// H39 (E0277, E0308): a part of the memory is written, and all of it is read.
// Twin: h39_read_of_memory_never_written
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut frame = compute.alloc_uninit::<f32>(1024)?;
    compute.fill(&mut frame[..512], 1.0)?;
    Ok(())
}
