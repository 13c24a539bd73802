// H24 (E0521): buffers of two devices are kept in one `Vec`, as if on one.
// Twin: h23_scopes_mixed_by_recursion
#![forbid(unsafe_code)]
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error};

fn main() -> Result<(), Error> {
    Device::simulated(SimConfig::default(), |one| {
        let mut buffers = vec![one.pinned::<f32>(64)?];
        Device::simulated(SimConfig::default(), |two| {
            buffers.push(two.pinned::<f32>(64)?);
            Ok(())
        })?
    })?
}
