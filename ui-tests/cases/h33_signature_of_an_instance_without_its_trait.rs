// H33 (macro): each instance has its own signature, where `T::Wide` does not say whose `Wide`.
// Twin: h33_generic_kernel
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

pub trait Narrow: Element {
    type Wide: Element + From<Self>;
}
impl Narrow for f32 {
    type Wide = f64;
}

#[kernel(instances = [f32])]
pub fn widen<T: Narrow>(i: Index1, input: &[T]) -> T::Wide {
    T::Wide::from(input[i.get()])
}

fn main() {}
