// H25 (E0499): a graph is launched while the host reads its memory.
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
    graph.host(|(_, host)| {
        graph.launch(&compute).unwrap();
        host.as_slice()[0]
    })?;
    drop(download);
    Ok(())
}
