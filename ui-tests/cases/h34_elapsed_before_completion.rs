// H34 (E0599): a mark that work has not reached has no time to tell.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let start = compute.record_timed_event()?;
    let end = compute.record_timed_event()?;
    println!("{} ms", end.elapsed_ms_since(&start)?);
    Ok(())
}
