// H31 (macro): rustc may lay the struct out one way for the host, and another way for the device.
#![forbid(unsafe_code)]
use bytemuck::{Pod, Zeroable};
use device_std::Element;

#[derive(Clone, Copy, Pod, Zeroable, Element)]
struct Pixel {
    red: u8,
    rest: [u8; 3],
}

fn main() {}
