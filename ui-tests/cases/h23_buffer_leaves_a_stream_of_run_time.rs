// H23 (lifetime): a buffer leaves the closure of a stream that is known at run time, and is not
// kept by the stream.
// Twin: h01_kept_bundle_used_without_opening
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, Error, Priority};

fn main() -> Result<(), Error> {
    let gpu = AnyDevice::open_or_simulate(0)?;
    let worker = gpu.create_stream("worker", Priority::Low)?;
    let frame = worker.run(|s| s.alloc_zeroed::<f32>(1024))?;
    drop(frame);
    Ok(())
}
