// H25 (E0308): captured work waits for a mark of work that ran once, before any launch.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let event = download.record_event()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        stream.wait_event(&event)?;
        stream.fill(&mut view, 1.0)
    })?;
    drop(graph);
    Ok(())
}
