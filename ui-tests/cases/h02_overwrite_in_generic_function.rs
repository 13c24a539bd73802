// H02 (E0382): a function for any stream hands a frame on to its reader, and overwrites it.
// Twin: h02_overwrite_while_read
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Handoff, Idle, Stream, StreamTag};

fn show_and_clear<S: StreamTag>(
    stream: &Stream<S>,
    mut frame: DeviceBuffer<f32, S>,
    show: impl FnOnce(Handoff<DeviceBuffer<f32, Idle<S::Device>>>),
) -> Result<(), Error> {
    show(stream.release(frame)?);
    stream.fill(&mut frame, 0.0)
}

fn main() {}
