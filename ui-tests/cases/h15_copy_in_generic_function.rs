// H15 (E0308): a function for any stream downloads to the slice that it is given.
// Twin: h15_copy_from_a_vec
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Stream, StreamTag};

fn save<S: StreamTag>(stream: &Stream<S>, frame: &DeviceBuffer<f32, S>, to: &mut [f32]) -> Result<(), Error> {
    stream.copy_to_host(frame, to)
}

fn main() {}
