// H33 (macro): a thread returns the values of its block's threads, but the kernel has no block.
// Twin: h39_kernel_returns_its_element
#![forbid(unsafe_code)]
use device_std::Private;
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn doubled(i: Index1, input: &[f32]) -> Private<f32> {
    2.0 * input[i.get()]
}

fn main() {}
