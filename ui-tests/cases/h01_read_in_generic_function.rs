// H01 (E0277): a function takes any two streams, and reads on one what belongs to the other.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, PinnedBuffer, Stream, StreamTag};

fn save<Owner: StreamTag, Reader: StreamTag>(
    reader: &Stream<Reader>,
    frame: &DeviceBuffer<f32, Owner>,
    host: &mut PinnedBuffer<f32, Reader>,
) -> Result<(), Error> {
    reader.copy_to_host(frame, host)
}

fn main() {}
