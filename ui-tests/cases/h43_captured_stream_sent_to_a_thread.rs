// H43 (E0521): a thread keeps the stream of a capture, and adds to it when it is over.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |stream, _| {
        let stream = stream.clone();
        std::thread::spawn(move || stream.alloc_zeroed::<f32>(64).map(drop));
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
