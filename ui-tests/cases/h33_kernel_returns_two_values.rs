// H33 (macro): a kernel returns a tuple, but one output takes what it returns.
// Twin: h39_kernel_returns_its_element
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn split(i: Index1, input: &[f32]) -> (f32, f32) {
    (input[i.get()].trunc(), input[i.get()])
}

fn main() {}
