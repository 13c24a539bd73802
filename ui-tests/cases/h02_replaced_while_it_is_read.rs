// H02 (E0506): a frame is replaced, and so freed, while a view of it is still to be read.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut copy = compute.alloc_zeroed::<f32>(512)?;
    let half = &frame[..512];
    frame = compute.alloc_zeroed::<f32>(1024)?;
    compute.copy(half, &mut copy)?;
    Ok(())
}
