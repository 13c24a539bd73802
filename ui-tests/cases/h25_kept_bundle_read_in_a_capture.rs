// H25 (E0277): a capture records a read of what the stream outside keeps, and the graph would
// outlive it.
// Twin: h25_captured_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{AnyDevice, AnyStream, DeviceBuffer, Error, Idle, Kept};

fn captured(stream: &AnyStream, kept: Kept<DeviceBuffer<f32, Idle<AnyDevice>>>) -> Result<(), Error> {
    stream.run(|outside| {
        let graph = outside.capture(outside.alloc_zeroed::<f32>(1024)?, |s, mut data| {
            s.copy(&outside.by_ref(&kept)?, &mut data)
        })?;
        drop(graph);
        Ok(())
    })
}

fn main() {}
