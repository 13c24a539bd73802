// H42 (E0271): `__bundle!` is called by hand, for a pair of which one buffer is on another device
// than the bundle.
// Twin: h06_derive_with_a_buffer_of_another_stream
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceTag, DeviceView, DeviceViewMut, Idle, Place, StreamTag};
use std::marker::PhantomData;

/// Says which place the second buffer has.
trait Select {
    type P: Place;
}
struct Was<E>(PhantomData<E>);
impl<E: DeviceTag> Select for Was<E> {
    type P = Idle<E>;
}
struct Now<S, E>(PhantomData<(S, E)>);
impl<S: StreamTag, E: DeviceTag> Select for Now<S, E> {
    type P = S;
}

struct Pair<P, Q: Select> {
    a: DeviceBuffer<u32, P>,
    b: DeviceBuffer<u32, Q::P>,
}
/// `T`, and uses a parameter.
trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}
struct PairView<'v, E: DeviceTag, D, S> {
    a: <D as Is<DeviceViewMut<'v, u32, S>>>::Out,
    b: <E as Is<DeviceViewMut<'v, u32, S>>>::Out,
}
struct PairRef<'v, E: DeviceTag, D, S> {
    a: <D as Is<DeviceView<'v, u32, S>>>::Out,
    b: <E as Is<DeviceView<'v, u32, S>>>::Out,
}

cuda_rt::__bundle! {
    Pair, PairView, PairRef,
    lifetimes = [], types = [E], constants = [], others = [E], outlives = [],
    idle = [Idle<__D>, Was<E>,], idle_where = [[] E: { [] DeviceTag };],
    on = [__S, Now<__S, E>,], on_where = [[] E: { [] DeviceTag };],
    idle_of_stream = [Idle<<__S as Place>::Device>, Was<<__S as Place>::Device>,],
    forms = [[Pair, PairView, PairRef] buffers = [a: a; b: b;], plain = [];],
}

fn main() {}
