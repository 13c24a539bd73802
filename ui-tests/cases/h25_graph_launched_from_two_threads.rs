// H25 (E0277): two threads launch one graph at once.
#![forbid(unsafe_code)]
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let graph = compute.capture(compute.alloc_zeroed::<f32>(1024)?, |stream, mut view| {
        stream.fill(&mut view, 1.0)
    })?;
    let shared = std::sync::Arc::new(graph);
    std::thread::scope(|scope| {
        scope.spawn(|| std::sync::Arc::clone(&shared));
    });
    Ok(())
}
