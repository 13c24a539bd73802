// H24 (lifetime): a brand is shortened, so that buffers of two streams get one type.
// Twin: h23_two_pooled_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Pooled};

fn narrow<'long: 'short, 'short>(
    frame: DeviceBuffer<f32, Pooled<'long>>,
) -> DeviceBuffer<f32, Pooled<'short>> {
    frame
}

fn main() {}
