// H08 (E0596): a function for any reader of shared weights writes them.
// Twin: h08_write_through_a_lease
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Error, Lease, Stream, StreamTag};

fn normalise<S: StreamTag>(stream: &Stream<S>, weights: &Lease<DeviceBuffer<f32>, S>) -> Result<(), Error> {
    stream.fill(&mut weights.view(), 0.0)
}

fn main() {}
