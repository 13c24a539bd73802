// H42 (macro): `#[derive(Bundle)]` cannot see the place in a field whose type is a macro.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, Idle, Place};
macro_rules! buffer {
    ($place:ty) => { DeviceBuffer<u8, $place> };
}
#[derive(cuda_rt::Bundle)]
struct Frame<P: Place = Idle> {
    pixels: buffer!(P),
}
