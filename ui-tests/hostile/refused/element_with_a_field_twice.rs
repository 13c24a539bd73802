// H42 (E0025): `__element!` is told of a field twice.
#![forbid(unsafe_code)]
use cuda_rt::bytemuck;
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[bytemuck(crate = "cuda_rt::bytemuck")]
#[repr(C)]
struct One {
    number: u32,
}
device_std::__element! {
    One { number: u32, number: u32, }
}
