// H14 (E0277): a function for any stream writes pinned memory that the stream may be reading.
// Twin: h14_write_during_upload
#![forbid(unsafe_code)]
use cuda_rt::{PinnedBuffer, StreamTag};

fn next<S: StreamTag>(host: &mut PinnedBuffer<f32, S>) {
    host[0] = 1.0;
}

fn main() {}
