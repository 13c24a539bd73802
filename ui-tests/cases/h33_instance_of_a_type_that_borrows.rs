// H33 (E0277): an instance passes a reference to the GPU as a value.
// Twin: h33_generic_kernel
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel(instances = [&'static f32])]
pub fn fill<T: Copy>(i: Index1, value: T, mut output: PerThread<u32>) {
    let _ = (value, output.get_mut(i));
}

fn main() {}
