// H25 (E0277): captured work waits for a mark of another GPU's work, which ran once, before any
// launch.
// Twin: h25_event_enters_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let other = Device::open_or_simulate_gpu::<1>()?;
    let (compute, download) = (gpu.stream::<Compute>()?, other.stream::<Download<Gpu<1>>>()?);
    let event = download.record_event()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        stream.wait_event_of_peer(&event)?;
        stream.fill(&mut view, 1.0)
    })?;
    drop(graph);
    Ok(())
}
