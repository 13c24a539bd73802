// H42 (E0080): `__element!` is called by hand, and names fields in another order than they lie in:
// two layouts with one hash.
// Twin: h31_struct_without_repr_c
#![forbid(unsafe_code)]
extern crate self as core;

pub mod mem {
    #[expect(unused_macros)]
    macro_rules! always {
        ($type:ty, a) => {
            0
        };
        ($type:ty, b) => {
            4
        };
    }
    #[expect(unused_imports)]
    pub(crate) use always as offset_of;
    pub use std::mem::size_of;
}

use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    b: u32,
    a: f32,
}

device_std::__element! {
    Pair { a: f32, b: u32, }
}

fn main() {}
