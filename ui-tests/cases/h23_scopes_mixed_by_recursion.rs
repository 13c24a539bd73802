// H23 (E0521): a function that opens a scope within its own scope uses a buffer of the outer one.
#![forbid(unsafe_code)]
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Error, Scoped};

cuda_rt::streams! {
    Compute;
}

fn nest<'id>(outer: Option<DeviceBuffer<f32, Compute<Scoped<'id>>>>) -> Result<(), Error> {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>()?;
        if let Some(mut frame) = outer {
            compute.fill(&mut frame, 1.0)?;
        }
        nest(Some(compute.alloc_zeroed::<f32>(64)?))
    })?
}

fn main() {
    let _ = nest(None);
}
