// H11 (E0499): two views that overlap are written by one kernel.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let (low, high) = (&mut frame[..600], &mut frame[400..]);
    compute.fill(low, 1.0)?;
    compute.fill(high, 2.0)?;
    Ok(())
}
