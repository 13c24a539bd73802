// H06 (macro): a buffer is passed off as a plain value, and stays behind when the bundle moves.
// Twin: h06_derive_with_a_buffer_of_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Idle, Place, Bundle};

#[derive(Bundle)]
struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<u8, P>,
    #[bundle(plain)]
    mask: DeviceBuffer<u8, P>,
}

fn main() {}
