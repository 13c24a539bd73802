// H35 (E0308): the event of a handoff carries no time.
// Twin: h34_elapsed_before_completion
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let handoff = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    let end = compute.record_timed_event()?.synchronize()?;
    println!("{} ms", end.elapsed_ms_since(&handoff)?);
    Ok(())
}
