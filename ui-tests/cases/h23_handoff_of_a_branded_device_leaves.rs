// H23 (lifetime): a handoff leaves the closure with the brand of its device; `run_on` names the
// device by its tag.
// Twin: h01_kept_bundle_used_without_opening
#![forbid(unsafe_code)]
use cuda_rt::{AnyStream, Error};

fn released(worker: &AnyStream) -> Result<(), Error> {
    let pending = worker.run(|s| s.release(s.alloc_zeroed::<f32>(1024)?))?;
    drop(pending);
    Ok(())
}

fn main() {}
