// H06 (macro): an enum moves as a whole, but one variant has a buffer that stays with `Download`.
// Twin: h06_derive_for_an_enum
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Idle, Place, Bundle};

cuda_rt::streams! {
    Download;
}

#[derive(Bundle)]
enum Frame<P: Place = Idle> {
    Nv12(DeviceBuffer<u8, P>),
    Rgb { pixels: DeviceBuffer<[u8; 3], P>, mask: DeviceBuffer<u8, Download> },
}

fn main() {}
