// H42 (macro): `__element!` is not told of a field.
#![forbid(unsafe_code)]
use cuda_rt::bytemuck;
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[bytemuck(crate = "cuda_rt::bytemuck")]
#[repr(C)]
struct Two {
    first: u32,
    second: [u32; 0],
}
device_std::__element! {
    Two { first: u32, }
}
