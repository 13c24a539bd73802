// H25 (E0521): within the update of one graph, work is given to the capture of another.
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
    let other = compute.capture(second, |outer, mut view| {
        outer.fill(&mut view, 1.0)?;
        one.update(|_, mut inner| outer.fill(&mut inner, 2.0))
    })?;
    drop(other);
    Ok(())
}
