// H42 (E0004): `__bundle!` is given an enum without one of its variants.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceView, DeviceViewMut, Idle, Place};
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

enum Whole<P> {
    One(DeviceBuffer<u8, P>),
    Other(DeviceBuffer<u8, P>),
}
enum WholeView<'v, D, S> {
    One(<D as Is<DeviceViewMut<'v, u8, S>>>::Out),
    Other(<D as Is<DeviceViewMut<'v, u8, S>>>::Out),
}
enum WholeRef<'v, D, S> {
    One(<D as Is<DeviceView<'v, u8, S>>>::Out),
    Other(<D as Is<DeviceView<'v, u8, S>>>::Out),
}
cuda_rt::__bundle! {
    Whole, WholeView, WholeRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [
        [Whole::One, WholeView::One, WholeRef::One] buffers = [0: part;], plain = [];
    ],
}
