// H42 (E0603): a program takes another package's PTX for its own, to launch kernels that are
// private there.
// Twin: h39_kernel_returns_its_element
#![forbid(unsafe_code)]
use device_kernels::__CUDA_RT_MODULE;
use device_std::prelude::*;

#[kernel]
pub fn hidden(i: Index1, input: &[f32]) -> f32 {
    input[i.get()]
}

fn main() {}
