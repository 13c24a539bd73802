// H21 (E0521): `__bundle!` is called by hand, for a pair of which one buffer is lent to graphs and
// tasks for ever.
// Twin: h21_freed_under_a_view
#![forbid(unsafe_code)]
use cuda_rt::{Bundle, DeviceTag, Idle, PinnedBuffer, Place, StreamTag};

struct Pair<P: Place = Idle> {
    a: PinnedBuffer<u32, P>,
    b: PinnedBuffer<u32, P>,
}
type View<'v, D, S> = <PinnedBuffer<u32, Idle<D>> as Bundle>::View<'v, S>;
type Ref<'v, D, S> = <PinnedBuffer<u32, Idle<D>> as Bundle>::Ref<'v, S>;

struct PairView<'v, D: DeviceTag, S: StreamTag> {
    a: View<'static, D, S>,
    b: View<'v, D, S>,
}
struct PairRef<'v, D: DeviceTag, S: StreamTag> {
    a: Ref<'static, D, S>,
    b: Ref<'v, D, S>,
}

cuda_rt::__bundle! {
    Pair, PairView, PairRef,
    lifetimes = [], types = [], constants = [], others = [], outlives = [],
    idle = [Idle<__D>,], idle_where = [],
    on = [__S,], on_where = [],
    idle_of_stream = [Idle<<__S as Place>::Device>,],
    forms = [[Pair, PairView, PairRef] buffers = [a: a; b: b;], plain = [];],
}

fn main() {}
