// H33 (macro): there is no one to return to: the launch does not wait.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn first(i: Index1, input: &[f32], mut output: PerThread<f32>) -> f32 {
    if let Some(out) = output.get_mut(i) {
        *out = 1.0;
    }
    input[0]
}

fn main() {}
