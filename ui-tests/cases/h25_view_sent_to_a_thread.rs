// H25 (E0521): a thread that outlives the capture writes the graph's memory.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    std::thread::scope(|scope| {
        compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, mut view| {
            scope.spawn(move || stream.fill(&mut view, 1.0));
            Ok(())
        })
    })
    .map(drop)
}
