// H21 (E0502): a frame is taken out of its `Option`, and freed, under a view.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut frame = Some(compute.alloc_zeroed::<f32>(1024)?);
    let mut copy = compute.alloc_zeroed::<f32>(512)?;
    let half = &frame.as_ref().unwrap()[..512];
    drop(frame.take());
    compute.copy(half, &mut copy)?;
    Ok(())
}
