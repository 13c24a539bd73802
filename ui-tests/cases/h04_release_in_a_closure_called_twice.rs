// H04 (E0525): a closure releases the frame that it holds, each time it is called.
// Twin: h04_use_after_release
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let frame = compute.alloc_zeroed::<f32>(1024)?;
    let finish = || compute.release(frame).map(drop);
    twice(finish)?;
    Ok(())
}

fn twice(mut body: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    body()?;
    body()
}
