// H11 (E0499): a function for any stream writes two overlapping parts at once.
// Twin: h11_overlapping_views
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceSlice, StreamTag};

fn halves<S: StreamTag>(frame: &mut DeviceBuffer<f32, S>) -> [&mut DeviceSlice<f32, S>; 2] {
    [&mut frame[..600], &mut frame[400..]]
}

fn main() {}
