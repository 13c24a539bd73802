//! Your kernels. The same source runs on the GPU, on the simulated device, and as typed calls in
//! `src/lib.rs` of the program.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

use device_std::prelude::*;

device_std::kernel_module!(concat!(env!("OUT_DIR"), "/kernels.ptx"));

/// `sum[i] = a * x[i] + y[i]`. The grid covers the length of `sum`.
#[kernel]
pub fn saxpy(i: Index1, a: f32, x: &[f32], y: &[f32], mut sum: PerThread<f32>) {
    if let Some(out) = sum.get_mut(i) {
        *out = a.mul_add(x[i.get()], y[i.get()]);
    }
}
