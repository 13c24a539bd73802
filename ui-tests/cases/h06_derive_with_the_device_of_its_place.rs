// H06 (macro): the constant of a bundle names its device by the bundle's place.
// Twin: h06_derive_with_a_constant
#![forbid(unsafe_code)]
use cuda_rt::{Bundle, Constant, DeviceBuffer, Idle, Place};

#[derive(Bundle)]
struct Scaler<P: Place = Idle> {
    weights: Constant<DeviceBuffer<f32, Idle<P::Device>>, P>,
    scratch: DeviceBuffer<f32, P>,
}

fn main() {}
