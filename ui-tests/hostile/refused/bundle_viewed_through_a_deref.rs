// H42 (E0271): `__bundle!` views what a part dereferences to, where only the part is a bundle. A
// bound says which bundle is meant.
#![forbid(unsafe_code)]
use cuda_rt::{Bundle, DeviceBuffer, DeviceTag, DeviceView, DeviceViewMut, Idle, Place, StreamTag};
use std::ops::{Deref, DerefMut};
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

#[derive(Bundle)]
struct Part<P: Place = Idle>(DeviceBuffer<u8, P>, #[bundle(plain)] &'static Other);
struct Other;
impl<P: Place> Deref for Part<P> {
    type Target = DeviceBuffer<u8, P>;
    fn deref(&self) -> &Self::Target {
        panic!("a method of the user's, on a bundle that is pending")
    }
}
impl<P: Place> DerefMut for Part<P> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        panic!("a method of the user's, on a bundle that is pending")
    }
}
struct Whole<P: Place>(Part<P>);
struct WholeView<'v, D, S>(<D as Is<DeviceViewMut<'v, u8, S>>>::Out);
struct WholeRef<'v, D, S>(<D as Is<DeviceView<'v, u8, S>>>::Out);
cuda_rt::__bundle! {
    Whole, WholeView, WholeRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [[] DeviceBuffer<u8, Idle<__D>>: { [] Bundle<Device = __D> };],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [[Whole, WholeView, WholeRef] buffers = [0: part;], plain = [];],
}
