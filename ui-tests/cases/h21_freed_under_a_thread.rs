// H21 (E0505): a frame is freed while a thread still gives work on it to its stream.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut copy = compute.alloc_zeroed::<f32>(1024)?;
    let whole = &frame[..];
    std::thread::scope(|scope| {
        scope.spawn(|| compute.copy(whole, &mut copy));
        drop(frame);
    });
    Ok(())
}
