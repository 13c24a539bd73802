// H25 (E0277): an update would make the graph replay the use of a buffer that it does not own.
// Twin: h25_updated_between_launches
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let outside = compute.alloc_zeroed::<f32>(64)?;
    let pair = (compute.alloc_zeroed::<f32>(64)?, compute.alloc_zeroed::<f32>(64)?);
    let mut graph = compute.capture(pair, |stream, (a, mut b)| stream.copy(&a, &mut b))?;
    graph.update(|stream, (_, mut b)| stream.copy(&outside, &mut b))?;
    Ok(())
}
