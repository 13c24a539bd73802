// H31 (E0277): a buffer may hold any bits, and a `bool` only two values.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn count(i: Index1, flags: &[bool], mut output: PerThread<u32>) {
    if let Some(out) = output.get_mut(i) {
        *out += u32::from(flags[i.get()]);
    }
}

fn main() {}
