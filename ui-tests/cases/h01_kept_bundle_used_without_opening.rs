// H01 (E0277): a stream reads what a stream keeps, without the comparison that `open` and `by_ref`
// make.
// Twin: h01_kept_bundle_used_without_opening
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, DeviceBuffer, Error, Idle, Kept, Priority};

fn main() -> Result<(), Error> {
    let gpu = AnyDevice::open_or_simulate(0)?;
    let (one, two) = (gpu.create_stream("one", Priority::Low)?, gpu.create_stream("two", Priority::Low)?);
    let kept: Kept<DeviceBuffer<f32, Idle<AnyDevice>>> =
        one.run(|s| Ok::<_, Error>(s.keep(s.alloc_zeroed::<f32>(1024)?)))?;
    two.run(|s| {
        let mut copy = s.alloc_zeroed::<f32>(1024)?;
        s.copy(&kept, &mut copy)
    })
}
