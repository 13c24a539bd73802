// H25 (E0277): inside a capture, a stream reads what belongs to another one.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
    Download;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        let fork = stream.fork::<Download>()?;
        fork.fill(&mut view, 1.0)
    })?;
    drop((graph, download));
    Ok(())
}
