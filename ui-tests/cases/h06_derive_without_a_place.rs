// H06 (macro): a bundle whose type does not say who owns it.
// Twin: h06_derive_with_a_buffer_of_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Bundle};

cuda_rt::streams! {
    Compute;
}

#[derive(Bundle)]
struct Frame {
    pixels: DeviceBuffer<u8, Compute>,
}

fn main() {}
