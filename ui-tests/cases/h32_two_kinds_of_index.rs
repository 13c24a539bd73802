// H32 (macro): a kernel with two kinds of index, by which two threads reach one element.
// Twin: h28_wrong_element_type
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn both(i: Index1, at: Index2, mut output: PerThread<f32>) {
    if let Some(out) = output.get_mut(i) {
        *out = at.x() as f32;
    }
}

fn main() {}
