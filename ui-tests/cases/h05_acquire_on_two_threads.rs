// H05 (E0382): two threads take one handoff, each for its stream.
// Twin: h05_acquire_twice
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let frame = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
    std::thread::scope(|scope| {
        scope.spawn(|| compute.acquire(frame).map(drop));
        scope.spawn(|| download.acquire(frame).map(drop));
    });
    Ok(())
}
