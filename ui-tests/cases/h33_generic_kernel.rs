// H33 (macro): a kernel for any type, which lists no instance, has no entry in the PTX.
// Twin: h33_generic_kernel
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel]
pub fn copy<T: Element>(i: Index1, input: &[T], mut output: PerThread<T>) {
    if let Some(out) = output.get_mut(i) {
        *out = input[i.get()];
    }
}

fn main() {}
