// H12 (E0277): a bundle is cloned, and two owners have its memory.
// Twin: h05_acquire_twice
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Idle, Place, Bundle};

#[derive(Clone, Bundle)]
struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<u8, P>,
}

fn main() {}
