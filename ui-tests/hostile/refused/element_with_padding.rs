// H42 (E0080): a crate that calls itself `core` makes bytemuck's derive take a struct for one
// without padding.
#![forbid(unsafe_code)]
#![no_implicit_prelude]
extern crate self as core;
extern crate std as rust;
pub mod mem {
    pub const fn size_of<T>() -> ::rust::primitive::usize {
        0
    }
}
#[derive(
    ::rust::clone::Clone, ::rust::marker::Copy, ::cuda_rt::bytemuck::Pod, ::cuda_rt::bytemuck::Zeroable, ::device_std::Element,
)]
#[bytemuck(crate = "::cuda_rt::bytemuck")]
#[repr(C)]
struct Padded {
    first: ::rust::primitive::u8,
    second: ::rust::primitive::u32,
}
