// H06 (macro): which of its buffers an enum holds is not known while it is pending.
// Twin: h06_derive_with_a_buffer_of_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Idle, PinnedBuffer, Place, Bundle};

#[derive(Bundle)]
enum Frame<P: Place = Idle> {
    Device(DeviceBuffer<u8, P>),
    Host(PinnedBuffer<u8, P>),
}

fn main() {}
