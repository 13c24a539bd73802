// H42 (E0308): `__element!` is told another type than the field's.
#![forbid(unsafe_code)]
use cuda_rt::bytemuck;
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[bytemuck(crate = "cuda_rt::bytemuck")]
#[repr(C)]
struct One {
    number: u32,
}
device_std::__element! {
    One { number: f32, }
}
