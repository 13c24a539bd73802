// H25 (E0382): the memory that a graph replays is used by someone else.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut frame = compute.alloc_zeroed::<f32>(1024)?;
    let mut graph = compute.capture(frame, |stream, mut view| stream.fill(&mut view, 1.0))?;
    compute.fill(&mut frame, 2.0)?;
    graph.launch(&compute)?;
    Ok(())
}
