// H42 (E0530): `__bundle!` is given the name of a constant for a part: the pattern would compare,
// and the constant would take the part's place.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceView, DeviceViewMut, Idle, Place};
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

const PART: u8 = 1;
struct Whole<P>(DeviceBuffer<u8, P>, u8);
struct WholeView<'v, D, S>(<D as Is<DeviceViewMut<'v, u8, S>>>::Out, u8);
struct WholeRef<'v, D, S>(<D as Is<DeviceView<'v, u8, S>>>::Out, u8);
cuda_rt::__bundle! {
    Whole, WholeView, WholeRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [
        [Whole, WholeView, WholeRef] buffers = [0: part;], plain = [1: PART;];
    ],
}
