// H25 (lifetime): a capture's closure claims that its brand is `'static`.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Captured, Device, DeviceViewMut, Error, Stream};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let body = |stream: &'static Stream<Captured<'static, Compute>>,
                mut view: DeviceViewMut<'static, f32, Captured<'static, Compute>>| {
        stream.fill(&mut view, 1.0)
    };
    let graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, body)?;
    drop(graph);
    Ok(())
}
