// H31 (E0277): a struct holds an address of the host's.
// Twin: h31_struct_without_repr_c
#![forbid(unsafe_code)]
use bytemuck::{Pod, Zeroable};
use device_std::Element;

#[derive(Clone, Copy, Pod, Zeroable, Element)]
#[repr(C)]
struct Line {
    text: &'static str,
}

fn main() {}
