// H33 (lint): the crate forbids `unsafe`, and a kernel's body is no exception.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn peek(i: Index1, input: &[f32], mut output: PerThread<f32>) {
    if let Some(out) = output.get_mut(i) {
        *out = unsafe { *input.get_unchecked(i.get()) };
    }
}

fn main() {}
