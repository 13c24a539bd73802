// H35 (E0308): two devices have two clocks.
// Twin: h34_elapsed_before_completion
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let other = Device::open_gpu::<1>()?.stream::<Compute<Gpu<1>>>()?;
    let (start, end) = (
        other.record_timed_event()?.synchronize()?,
        compute.record_timed_event()?.synchronize()?,
    );
    println!("{} ms", end.elapsed_ms_since(&start)?);
    Ok(())
}
