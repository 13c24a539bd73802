// H36 (E0521): memory of one device that is known at run time is handed to a stream of another one.
// Twin: h36_kept_bundle_of_a_named_device
#![forbid(unsafe_code)]
use cuda_rt::{AnyStream, Error};

fn handed(here: &AnyStream, there: &AnyStream) -> Result<(), Error> {
    here.run(|a| {
        there.run(|b| {
            let frame = a.acquire(b.release(b.alloc_zeroed::<f32>(1024)?)?)?;
            drop(frame);
            Ok(())
        })
    })
}

fn main() {}
