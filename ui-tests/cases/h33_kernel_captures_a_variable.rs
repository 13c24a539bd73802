// H33 (E0434): a kernel captures a variable of the host's stack.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

pub fn launch(gain: f32) {
    #[kernel]
    fn amplify(i: Index1, mut output: PerThread<f32>) {
        if let Some(out) = output.get_mut(i) {
            *out *= gain;
        }
    }
}

fn main() {}
