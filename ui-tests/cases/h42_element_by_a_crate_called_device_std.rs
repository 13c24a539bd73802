// H42 (lint): `#[derive(Element)]` names `::device_std`, which is this program, and its macro hides
// how a struct is laid out.
// Twin: h31_struct_without_repr_c
#![forbid(unsafe_code)]
extern crate device_std as real;
extern crate self as device_std;

use bytemuck::{Pod, Zeroable};
pub use real::*;

#[macro_export]
macro_rules! __element {
    ($name:ident $fields:tt) => {
        unsafe impl real::Element for $name {
            const LAYOUT: u64 = 7;
        }
    };
}

#[derive(Clone, Copy, Pod, Zeroable, real::Element)]
#[repr(C)]
struct Pixel {
    red: u8,
    rest: [u8; 3],
}

fn main() {}
