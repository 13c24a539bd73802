// H42 (E0080, E0133): `__bundle!` is called by hand, with a union: made with a number, it would be
// viewed as a reference.
// Twin: h06_derive_with_a_buffer_of_another_stream
#![forbid(unsafe_code)]
use std::marker::PhantomData;

union Cast<P> {
    number: usize,
    text: &'static u64,
    _place: PhantomData<P>,
}

/// `T`, and uses parameters.
trait Is<T> {
    type Out;
}
impl<U, T> Is<T> for U {
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
    forms = [[Cast, CastView, CastView] buffers = [], plain = [text: text;];],
}

fn main() {}
