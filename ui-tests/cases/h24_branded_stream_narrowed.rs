// H24 (lifetime): the brand of a stream is shortened, so that what two streams own gets one type.
// Twin: h23_two_pooled_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Branded, Stream};

fn narrow<'r, 'long: 'short, 'short>(stream: &'r Stream<Branded<'long>>) -> &'r Stream<Branded<'short>> {
    stream
}

fn main() {}
