// H11 (E0499): two threads write overlapping parts of one frame.
// Twin: h11_overlapping_views
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    std::thread::scope(|scope| {
        scope.spawn(|| compute.fill(&mut frame[..600], 1.0));
        scope.spawn(|| compute.fill(&mut frame[400..], 2.0));
    });
    Ok(())
}
