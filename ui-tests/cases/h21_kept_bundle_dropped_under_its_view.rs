// H21 (E0499): what a stream keeps is dropped while a view of it exists.
// Twin: h01_kept_bundle_used_without_opening
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, AnyStream, DeviceBuffer, Error, Idle, Kept};

fn dropped(stream: &AnyStream, kept: Kept<DeviceBuffer<f32, Idle<AnyDevice>>>) -> Result<(), Error> {
    let mut kept = Some(kept);
    stream.run(|s| {
        let mut view = s.view(kept.as_mut().unwrap())?;
        drop(kept.take());
        s.fill(&mut view, 1.0)
    })
}

fn main() {}
