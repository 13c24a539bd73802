// H42 (E0277): `__bundle!` is given a union, and takes its field for a buffer.
#![forbid(unsafe_code)]
use std::marker::PhantomData;
union Cast<P> {
    number: usize,
    text: &'static u64,
    _place: PhantomData<P>,
}
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

struct CastView<'v, D, S> {
    text: <PhantomData<(&'v (), D, S)> as Is<&'static u64>>::Out,
}
cuda_rt::__bundle! {
    Cast, CastView, CastView,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [cuda_rt::Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [cuda_rt::Idle<<__S as cuda_rt::Place>::Device>,],
    forms = [[Cast, CastView, CastView] buffers = [text: text;], plain = [];],
}
