// H03 (E0277): a function takes any two streams, and fills on one what belongs to the other.
// Twin: h03_two_streams_write
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Stream, StreamTag};

fn clear<Owner: StreamTag, Writer: StreamTag>(
    writer: &Stream<Writer>,
    frame: &mut DeviceBuffer<f32, Owner>,
) -> Result<(), Error> {
    writer.fill(frame, 0.0)
}

fn main() {}
