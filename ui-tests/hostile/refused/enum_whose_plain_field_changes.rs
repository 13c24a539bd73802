// H42 (E0308): `__bundle!` makes views of an enum whose plain field is what the bundle's
// dereferences to, by a method of the user's.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceView, DeviceViewMut, Idle, Place};
use std::ops::Deref;
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

struct Loud(u8);
impl Deref for Loud {
    type Target = u8;
    fn deref(&self) -> &u8 {
        panic!("a method of the user's, on a bundle that is pending")
    }
}
enum Whole<P> {
    One(DeviceBuffer<u8, P>, &'static Loud),
}
enum WholeView<'v, D, S> {
    One(<D as Is<DeviceViewMut<'v, u8, S>>>::Out, &'static u8),
}
enum WholeRef<'v, D, S> {
    One(<D as Is<DeviceView<'v, u8, S>>>::Out, &'static u8),
}
cuda_rt::__bundle! {
    Whole, WholeView, WholeRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [
        [Whole::One, WholeView::One, WholeRef::One] buffers = [0: part;], plain = [1: loud;];
    ],
}
