// H05 (E0382): what a stream keeps is opened by two streams.
// Twin: h01_kept_bundle_used_without_opening
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, AnyStream, DeviceBuffer, Error, Idle, Kept};

fn both(one: &AnyStream, two: &AnyStream, kept: Kept<DeviceBuffer<f32, Idle<AnyDevice>>>) -> Result<(), Error> {
    one.run(|s| Ok::<_, Error>(drop(s.open(kept)?)))?;
    two.run(|s| Ok::<_, Error>(drop(s.open_ordered(kept)?)))
}

fn main() {}
