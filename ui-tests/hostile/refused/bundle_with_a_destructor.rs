// H42 (E0509): `__bundle!` is given a struct with a destructor.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceView, DeviceViewMut, Idle, Place};
struct Noisy<P>(DeviceBuffer<u8, P>);
impl<P> Drop for Noisy<P> {
    fn drop(&mut self) {
        panic!("in the middle of a bundle");
    }
}
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

struct NoisyView<'v, D, S>(<D as Is<DeviceViewMut<'v, u8, S>>>::Out);
struct NoisyRef<'v, D, S>(<D as Is<DeviceView<'v, u8, S>>>::Out);
cuda_rt::__bundle! {
    Noisy, NoisyView, NoisyRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [[Noisy, NoisyView, NoisyRef] buffers = [0: buffer;], plain = [];],
}
