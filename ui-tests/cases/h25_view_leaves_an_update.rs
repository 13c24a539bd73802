// H25 (E0521): a view of the graph's memory leaves the body of an update, and races with the
// graph's launches.
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
    let mut graph = compute.capture(buffer, |stream, mut view| stream.fill(&mut view, 1.0))?;
    let kept = std::cell::RefCell::new(None);
    graph.update(|_, view| {
        kept.replace(Some(view));
        Ok(())
    })?;
    Ok(())
}
