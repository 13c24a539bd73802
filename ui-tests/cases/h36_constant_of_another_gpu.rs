// H36 (E0308): a constant of GPU 0 is named as one of GPU 1, for the streams of which it would be
// idle memory.
// Twin: h23_scopes_mixed_by_recursion
#![forbid(unsafe_code)]
use cuda_rt::{Constant, Device, DeviceBuffer, Error, Gpu, Idle};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let gpu = Device::open_or_simulate()?;
    let compute = gpu.stream::<Compute>()?;
    let weights = compute
        .release(compute.alloc_zeroed::<f32>(1024)?)?
        .synchronize()?;
    let weights: Constant<DeviceBuffer<f32>, Idle<Gpu<1>>> = Constant::new(weights);
    drop(weights);
    Ok(())
}
