// H31 (macro): a reference is an address of the host's.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn offset(i: Index1, by: &f32, mut output: PerThread<f32>) {
    if let Some(out) = output.get_mut(i) {
        *out += *by;
    }
}

fn main() {}
