// H31 (E0277): a string is on the host's heap, and the GPU would get its address.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn tag(i: Index1, name: String, mut output: PerThread<u32>) {
    if let Some(out) = output.get_mut(i) {
        *out = name.len() as u32;
    }
}

fn main() {}
