// H13 (E0277): a function for any stream reads pinned memory that the stream has.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::{PinnedBuffer, StreamTag};

fn first<S: StreamTag>(host: &PinnedBuffer<f32, S>) -> f32 {
    host[0]
}

fn main() {}
