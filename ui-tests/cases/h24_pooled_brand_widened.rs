// H24 (lifetime): a brand is lengthened, so that a buffer can leave its closure.
// Twin: h23_two_pooled_streams_mixed
#![forbid(unsafe_code)]
use cuda_rt::{Pooled, Stream};

fn widen<'short>(stream: &Stream<Pooled<'short>>) -> Stream<Pooled<'static>> {
    stream.clone()
}

fn main() {}
