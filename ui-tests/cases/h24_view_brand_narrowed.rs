// H24 (lifetime): views of two captures get one type.
// Twin: h25_buffer_leaves_a_capture
#![forbid(unsafe_code)]
use cuda_rt::{Captured, DeviceViewMut, NamedStream};

fn narrow<'v, 'long: 'short, 'short, S: NamedStream>(
    view: DeviceViewMut<'v, f32, Captured<'long, S>>,
) -> DeviceViewMut<'v, f32, Captured<'short, S>> {
    view
}

fn main() {}
