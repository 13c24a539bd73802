// H25 (E0277): an update would make one graph replay the use of what another one owns, and may give
// back.
// Twin: h25_updated_between_launches
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let (first, second) = (compute.alloc_zeroed::<f32>(64)?, compute.alloc_zeroed::<f32>(64)?);
    let mut one = compute.capture(first, |stream, mut view| stream.fill(&mut view, 1.0))?;
    let mut other = compute.capture(second, |stream, mut view| stream.fill(&mut view, 1.0))?;
    let theirs = other.views();
    one.update(|stream, mut view| stream.copy(&theirs, &mut view))?;
    Ok(())
}
