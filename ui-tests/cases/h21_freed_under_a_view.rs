// H21 (E0505): device memory is freed while a view of it is still to be used.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut copy = compute.alloc_zeroed::<f32>(512)?;
    let half = &frame[..512];
    drop(frame);
    compute.copy(half, &mut copy)?;
    Ok(())
}
