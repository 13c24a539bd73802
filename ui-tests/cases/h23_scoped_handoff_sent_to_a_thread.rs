// H23 (E0521): a handoff of a scoped device is taken by a thread that outlives the device.
// Twin: h23_scoped_buffer_leaves_its_device
#![forbid(unsafe_code)]
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>()?;
        let handoff = compute.release(compute.alloc_zeroed::<f32>(1024)?)?;
        std::thread::spawn(move || handoff.synchronize().map(drop));
        Ok(())
    })?
}
