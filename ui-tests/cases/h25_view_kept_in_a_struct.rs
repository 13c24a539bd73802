// H25 (E0521): a struct keeps a view of a capture, to use it on the stream outside.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Captured, Device, DeviceViewMut, Error};

cuda_rt::streams! {
    Compute;
}

struct Kept<'v> {
    view: Option<DeviceViewMut<'v, f32, Captured<'v, Compute>>>,
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let mut kept = Kept { view: None };
    let graph = compute.capture(compute.alloc_zeroed::<f32>(64)?, |_, view| {
        kept.view = Some(view);
        Ok(())
    })?;
    drop((graph, kept));
    Ok(())
}
