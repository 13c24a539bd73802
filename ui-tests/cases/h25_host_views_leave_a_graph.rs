// H25 (lifetime): the host keeps a view of a graph, and the graph is launched again.
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
    let (_, kept) = graph.host(|views| views)?;
    graph.launch(&compute)?;
    drop((kept.as_slice()[0], download));
    Ok(())
}
