// H42 (E0509): `__bundle!` is given an enum with a destructor, whose only variant with a buffer
// cannot be made.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceView, DeviceViewMut, Idle, Place};
use std::convert::Infallible;
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

enum Whole<P> {
    One(DeviceBuffer<u8, P>, Infallible),
    Empty,
}
impl<P> Drop for Whole<P> {
    fn drop(&mut self) {
        panic!("in the middle of a bundle");
    }
}
enum WholeView<'v, D, S> {
    One(<D as Is<DeviceViewMut<'v, u8, S>>>::Out, Infallible),
    Empty,
}
enum WholeRef<'v, D, S> {
    One(<D as Is<DeviceView<'v, u8, S>>>::Out, Infallible),
    Empty,
}
cuda_rt::__bundle! {
    Whole, WholeView, WholeRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [
        [Whole::One, WholeView::One, WholeRef::One] buffers = [0: part;], plain = [1: never;];
        [Whole::Empty, WholeView::Empty, WholeRef::Empty] buffers = [], plain = [];
    ],
}
