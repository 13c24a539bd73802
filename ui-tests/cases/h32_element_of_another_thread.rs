// H32 (E0277): a thread writes the element next to its own, which another thread writes too.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn shift(i: Index1, input: &[f32], mut output: PerThread<f32>) {
    if let Some(out) = output.get_mut(i.get() + 1) {
        *out = input[i.get()];
    }
}

fn main() {}
