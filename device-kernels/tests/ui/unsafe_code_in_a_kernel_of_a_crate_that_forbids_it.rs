#![forbid(unsafe_code)]

use device_std::prelude::*;

device_std::kernel_module!("../../ptx/device_kernels.ptx");

#[kernel]
pub fn peek(i: Index1, input: &[f32], mut output: PerThread<f32>) {
    if let Some(out) = output.get_mut(i) {
        *out = unsafe { *input.get_unchecked(i.get() + 1) };
    }
}

fn main() {}
