// H06 (E0277): a function releases on any stream what some other stream owns.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Handoff, Idle, Stream, StreamTag};

fn give<Owner: StreamTag, S: StreamTag<Device = Owner::Device>>(
    stream: &Stream<S>,
    frame: DeviceBuffer<f32, Owner>,
) -> Result<Handoff<DeviceBuffer<f32, Idle<S::Device>>>, Error> {
    stream.release(frame)
}

fn main() {}
