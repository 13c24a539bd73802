// H31 (E0080): device memory holds bytes, and an element of no size has none.
// Twin: h31_struct_without_repr_c
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn count(i: Index1, nothing: &[[f32; 0]], mut output: PerThread<u32>) {
    if let Some(out) = output.get_mut(i) {
        *out = nothing.len() as u32;
    }
}

fn main() {}
