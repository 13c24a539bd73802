// H42 (E0509): `__bundle!` is given an enum with a destructor, which would run on the way to a
// stream.
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
    Empty,
}
impl<P> Drop for Whole<P> {
    fn drop(&mut self) {
        panic!("in the middle of a bundle");
    }
}
enum WholeView<'v, D, S> {
    One(<D as Is<DeviceViewMut<'v, u8, S>>>::Out),
    Empty,
}
enum WholeRef<'v, D, S> {
    One(<D as Is<DeviceView<'v, u8, S>>>::Out),
    Empty,
}
cuda_rt::__bundle! {
    Whole, WholeView, WholeRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [
        [Whole::One, WholeView::One, WholeRef::One] buffers = [0: part;], plain = [];
        [Whole::Empty, WholeView::Empty, WholeRef::Empty] buffers = [], plain = [];
    ],
}
