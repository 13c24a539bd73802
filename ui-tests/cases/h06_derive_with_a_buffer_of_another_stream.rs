// H06 (macro): a bundle moves as a whole, but one of its buffers stays with `Download`.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Idle, Place, Bundle};

cuda_rt::streams! {
    Download;
}

#[derive(Bundle)]
struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<u8, P>,
    mask: DeviceBuffer<u8, Download>,
}

fn main() {}
