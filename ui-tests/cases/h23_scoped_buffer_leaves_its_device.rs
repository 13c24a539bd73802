// H23 (lifetime): a buffer outlives the simulated device that it is on.
#![forbid(unsafe_code)]
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    let frame = Device::simulated(SimConfig::default(), |gpu| {
        gpu.stream::<Compute<_>>()?.alloc_zeroed::<f32>(1024)
    })??;
    drop(frame);
    Ok(())
}
