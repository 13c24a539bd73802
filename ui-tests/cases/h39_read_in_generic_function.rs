// H39 (E0277): a function for any stream copies memory that was never written.
// Twin: h39_read_of_memory_never_written
#![forbid(unsafe_code)]
use std::mem::MaybeUninit;

use cuda_rt::{DeviceBuffer, Error, Stream, StreamTag};

fn copy<S: StreamTag>(
    stream: &Stream<S>,
    from: &DeviceBuffer<MaybeUninit<f32>, S>,
    to: &mut DeviceBuffer<MaybeUninit<f32>, S>,
) -> Result<(), Error> {
    stream.copy(from, to)
}

fn main() {}
