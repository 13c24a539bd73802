// H32 (E0451): a thread makes up an index from its fields.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn first(i: Index1, input: &[f32], mut output: PerThread<f32>) {
    let zero = Index1 { at: 0, ..i };
    if let Some(out) = output.get_mut(zero) {
        *out = input[i.get()];
    }
}

fn main() {}
