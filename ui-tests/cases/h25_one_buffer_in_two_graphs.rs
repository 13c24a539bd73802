// H25 (E0382): two graphs would each own one buffer, and race on it.
// Twin: h25_updated_between_launches
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let buffer = compute.alloc_zeroed::<f32>(64)?;
    let one = compute.capture(buffer, |stream, mut view| stream.fill(&mut view, 1.0))?;
    let other = compute.capture(buffer, |stream, mut view| stream.fill(&mut view, 2.0))?;
    drop((one, other));
    Ok(())
}
