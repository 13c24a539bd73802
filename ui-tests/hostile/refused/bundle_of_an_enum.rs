// H42 (E0574): `__bundle!` is given an enum.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceView, DeviceViewMut, Idle, Place};
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

enum Whole<P: Place> {
    One { buffer: DeviceBuffer<u8, P> },
}
struct WholeView<'v, D, S> {
    buffer: <D as Is<DeviceViewMut<'v, u8, S>>>::Out,
}
struct WholeRef<'v, D, S> {
    buffer: <D as Is<DeviceView<'v, u8, S>>>::Out,
}
cuda_rt::__bundle! {
    Whole, WholeView, WholeRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [[Whole, WholeView, WholeRef] buffers = [buffer: buffer;], plain = [];],
}
