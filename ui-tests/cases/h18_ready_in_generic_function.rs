// H18 (E0308): a function for any stream returns what the stream has as ready.
// Twin: h18_in_flight_buffer_sent_as_ready
#![forbid(unsafe_code)]
use cuda_rt::{Idle, PinnedBuffer, StreamTag};

fn ready<S: StreamTag>(host: PinnedBuffer<u8, S>) -> PinnedBuffer<u8, Idle<S::Device>> {
    host
}

fn main() {}
