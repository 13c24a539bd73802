// H24 (lifetime): streams of two devices get one type.
// Twin: h23_scopes_mixed_by_recursion
#![forbid(unsafe_code)]
use cuda_rt::{Scoped, Stream};

cuda_rt::streams! {
    Compute;
}

fn narrow<'long: 'short, 'short>(stream: Stream<Compute<Scoped<'long>>>) -> Stream<Compute<Scoped<'short>>> {
    stream
}

fn main() {}
