// H12 (E0308): a function for any two owners swaps their buffers.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, StreamTag};

fn swap<A: StreamTag, B: StreamTag>(a: &mut DeviceBuffer<f32, A>, b: &mut DeviceBuffer<f32, B>) {
    std::mem::swap(a, b);
}

fn main() {}
