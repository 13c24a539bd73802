// H04 (E0382): a thread releases a frame, and this one goes on writing it.
// Twin: h04_use_after_release
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
        scope.spawn(|| compute.release(frame).map(drop));
        compute.fill(&mut frame, 1.0)
    })?;
    Ok(())
}
