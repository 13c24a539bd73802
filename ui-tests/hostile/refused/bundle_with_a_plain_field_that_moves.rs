// H42 (E0277): `__bundle!` takes what is not `Copy` for plain: a buffer that stays with its stream.
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceView, DeviceViewMut, Idle, Place};
cuda_rt::streams! { Other; }
pub trait Is<T> {
    type Out;
}
impl<D, T> Is<T> for D {
    type Out = T;
}

struct Whole<P: Place>(DeviceBuffer<u8, P>, DeviceBuffer<u8, Other>);
struct WholeView<'v, D, S>(<D as Is<DeviceViewMut<'v, u8, S>>>::Out, DeviceBuffer<u8, Other>);
struct WholeRef<'v, D, S>(<D as Is<DeviceView<'v, u8, S>>>::Out, DeviceBuffer<u8, Other>);
cuda_rt::__bundle! {
    Whole, WholeView, WholeRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [[Whole, WholeView, WholeRef] buffers = [0: part;], plain = [1: other;];],
}
