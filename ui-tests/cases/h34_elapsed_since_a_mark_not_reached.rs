// H34 (E0308): the earlier mark was not waited for.
// Twin: h34_elapsed_before_completion
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let start = compute.record_timed_event()?;
    let end = compute.record_timed_event()?.synchronize()?;
    println!("{} ms", end.elapsed_ms_since(&start)?);
    Ok(())
}
