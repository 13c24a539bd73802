// H42 (lint): `#[derive(Bundle)]` names `::cuda_rt`, which is this program, and its macro leaves a
// buffer behind.
// Twin: h06_derive_with_a_buffer_of_another_stream
#![forbid(unsafe_code)]
extern crate cuda_rt as real;
extern crate self as cuda_rt;

pub use real::*;

#[macro_export]
macro_rules! __bundle {
    ($name:ident, $view:ident, $by_ref:ident, $($rest:tt)*) => {
        unsafe impl<__S: real::StreamTag> real::OwnedBy<__S> for $name<__S> {
            type Idle = DeviceBuffer<f32, Idle<<__S as Place>::Device>>;

            unsafe fn detach(self) -> Self::Idle {
                loop {}
            }
        }
    };
}

#[derive(real::Bundle)]
pub struct Frame<P: Place = Idle> {
    pixels: DeviceBuffer<f32, P>,
}

fn main() {}
