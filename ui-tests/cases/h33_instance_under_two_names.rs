// H33 (E0119): two names of one type are one instance, whose launch could choose neither entry.
// Twin: h33_generic_kernel
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

type Real = f32;

#[kernel(instances = [f32, Real])]
pub fn copy<T: Element>(i: Index1, input: &[T]) -> T {
    input[i.get()]
}

fn main() {}
