// H42 (E0080): `__bundle!` is given a struct without buffers, whose destructor would run on the way
// to a stream.
#![forbid(unsafe_code)]
use std::marker::PhantomData;
struct Noisy<P>(<P as Is<u8>>::Out);
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

struct NoisyView<'v, D, S>(<PhantomData<(&'v (), D, S)> as Is<u8>>::Out);
cuda_rt::__bundle! {
    Noisy, NoisyView, NoisyView,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [cuda_rt::Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [cuda_rt::Idle<<__S as cuda_rt::Place>::Device>,],
    forms = [[Noisy, NoisyView, NoisyView] buffers = [], plain = [0: number;];],
}
