// H25 (E0277): a graph would replay a copy to memory that is the host's again.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, view| {
        let mut host = stream.adopt(gpu.pinned::<f32>(1024)?)?;
        stream.copy_to_host(&view, &mut host)
    })?;
    drop(graph);
    Ok(())
}
