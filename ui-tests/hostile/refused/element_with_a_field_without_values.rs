// H42 (E0308): the field's type `!` coerces to any type. An attribute macro that runs after
// bytemuck's derives brings such a field into a `Pod` struct; here `unsafe` stands for the macro.
use cuda_rt::bytemuck;
pub trait Out {
    type Out;
}
impl<R> Out for fn() -> R {
    type Out = R;
}
pub type Never = <fn() -> ! as Out>::Out;
#[derive(Clone, Copy)]
#[repr(C)]
struct Ghost {
    number: u8,
    nothing: Never,
}
unsafe impl bytemuck::Zeroable for Ghost {}
unsafe impl bytemuck::Pod for Ghost {}
device_std::__element! {
    Ghost { number: u8, nothing: [u8; 0], }
}
