// H13 (E0277): the host reads what a graph downloads, and has not waited for the launch.
// Twin: h25_host_views_leave_a_graph
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let bundle = (compute.alloc_zeroed::<f32>(1024)?, compute.adopt(gpu.pinned::<f32>(1024)?)?);
    let mut graph = compute.capture(bundle, |stream, (data, mut host)| stream.copy_to_host(&data, &mut host))?;
    graph.launch(&compute)?;
    let first = graph.views().1.as_slice()[0];
    download.synchronize()?;
    drop(first);
    Ok(())
}
