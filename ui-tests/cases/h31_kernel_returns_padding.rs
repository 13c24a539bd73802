// H31 (E0277): a kernel returns a struct with padding, whose bytes it would not write.
// Twin: h31_struct_without_repr_c
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Padded {
    small: u8,
    large: u32,
}

#[kernel]
pub fn padded(i: Index1) -> Padded {
    Padded { small: 1, large: i.get() as u32 }
}

fn main() {}
