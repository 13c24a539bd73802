// H37 (E0277): a copy of what is there now is recorded, to be run at each launch.
// Twin: h37_source_not_handed_over
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error, Gpu};

cuda_rt::streams! {
    Compute;
    Copies;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let there = Device::open_gpu::<1>()?.stream::<Compute<Gpu<1>>>()?;
    let copies = gpu.stream::<Copies>()?;
    let frame = there.release(there.alloc_zeroed::<f32>(1024)?)?;
    let graph = copies.capture(copies.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        stream.copy_from_peer(frame, .., &mut view).map(drop)
    })?;
    drop(graph);
    Ok(())
}
