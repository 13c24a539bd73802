//! Kernels that panic. Their PTX, built by `cargo xtask ptx`, holds the places of the panics.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

device_std::kernel_module!("../ptx/panicking_kernels.ptx");

use device_std::prelude::*;

/// Reads `input[i]`, which panics beyond its end.
#[kernel]
pub fn read(i: Index1, input: &[u32], mut output: PerThread<u32>) {
    if let Some(out) = output.get_mut(i) {
        *out = input[i.get()]; // the place of a read beyond the end
    }
}

/// Asserts that each value is below `limit`.
#[kernel]
pub fn check(i: Index1, input: &[u32], mut output: PerThread<u32>, limit: u32) {
    let Some(out) = output.get_mut(i) else { return };
    *out = input.get(i.get()).copied().unwrap_or(0);
    assert!(*out < limit, "{} is not below {limit}", *out); // the place of an assertion
}
