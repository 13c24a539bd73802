// H39 (E0133): a program claims that memory was written, without taking the blame.
// Twin: h39_read_of_memory_never_written
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_uninit::<f32>(1024)?.assume_init();
    drop(frame);
    Ok(())
}
