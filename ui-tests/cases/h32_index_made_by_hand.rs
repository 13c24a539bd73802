// H32 (E0423): a thread makes up an index.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn first(i: Index1, input: &[f32], mut output: PerThread<f32>) {
    if let Some(out) = output.get_mut(Index1(0)) {
        *out = input[i.get()];
    }
}

fn main() {}
