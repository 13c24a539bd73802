// H42 (macro): `__element!` is called by hand, with bounds that end its `impl` early and bring
// another hash of the layout.
// Twin: h31_struct_without_repr_c
#![forbid(unsafe_code)]
use bytemuck::{Pod, Zeroable};

macro_rules! swallow {
    ($($tokens:tt)*) => {};
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pixel {
    red: u8,
    rest: [u8; 3],
}

device_std::__element! {
    Pixel {}, types = [], constants = [], arguments = [],
    bounds = [[] u8: { [] Copy { const LAYOUT: u64 = 7; } swallow! };],
}

fn main() {}
