//! The objects of programs: streams, the one bundle that programs move, and the places where the
//! bundle may be.

use cuda_rt::{
    Captured, Device, DeviceBuffer, DeviceSlice, Error, Handoff, Idle, Lease, Live, PinnedBuffer, Place,
    Pooled, Shared, Stream, StreamPool, StreamTag,
};

use crate::plan::Kernel;
use crate::work::read;

cuda_rt::streams! {
    pub(crate) First, priority = High;
    pub(crate) Second;
    pub(crate) Third;
}

/// The bundle of a program: some device memory and perhaps some pinned memory.
#[derive(cuda_rt::Bundle)]
pub(crate) struct Buffers<P: Place = Idle> {
    pub(crate) parts: Vec<DeviceBuffer<f32, P>>,
    pub(crate) host: Option<PinnedBuffer<f32, P>>,
    #[resource(plain)]
    pub(crate) number: u32,
}

pub(crate) type IdleBundle<D> = Buffers<Idle<D>>;

/// A bundle that a named stream owns.
pub(crate) enum Owned<D: Live> {
    First(Buffers<First<D>>),
    Second(Buffers<Second<D>>),
    Third(Buffers<Third<D>>),
}

/// Where a bundle is now.
pub(crate) enum State<D: Live> {
    On(Owned<D>),
    Pending(Handoff<IdleBundle<D>>),
    Idle(IdleBundle<D>),
    /// Shared, with leases in transit.
    Shared(Shared<IdleBundle<D>>, Vec<Handoff<Lease<IdleBundle<D>, Idle<D>>>>),
    /// Dropped, leaked, or lost to an error.
    Gone,
}

/// A step that failed: where the bundle is instead, and why.
pub(crate) type Instead<D> = (State<D>, Option<Error>);

/// A stream on which programs work.
pub(crate) trait Lane<D: Live>: StreamTag<Device = D> + Sized {
    /// The bundle, if this very stream owns it.
    fn claim(owned: Owned<D>) -> Result<Buffers<Self>, Owned<D>>;

    /// Stores a bundle after work on it.
    fn keep(stream: &Stream<Self>, bundle: Buffers<Self>) -> Instead<D>;

    /// Work inside a capture: another stream gets `copy` by a handoff and `last` as a loan. It
    /// reads `first` and then `copy` into `last`. Meanwhile `stream` reads `first` too, and it
    /// writes `first` after that loan.
    fn fork<'g>(
        stream: &'g Stream<Captured<'g, Self>>,
        to: u8,
        copy: DeviceBuffer<f32, Captured<'g, Self>>,
        first: Option<&mut DeviceSlice<f32, Captured<'g, Self>>>,
        last: &mut DeviceSlice<f32, Captured<'g, Self>>,
    ) -> cuda_rt::Result<()>;
}

/// The work of a fork inside a capture.
pub(crate) const FORKED: Kernel = Kernel::Saxpy(2);

/// The work of the captured stream after it has lent memory.
pub(crate) const WRITTEN: Kernel = Kernel::Scale(2);

/// Written for each tag, because only there the compiler knows that `D` outlives the capture.
macro_rules! fork {
    () => {
        fn fork<'g>(
            stream: &'g Stream<Captured<'g, Self>>,
            to: u8,
            copy: DeviceBuffer<f32, Captured<'g, Self>>,
            first: Option<&mut DeviceSlice<f32, Captured<'g, Self>>>,
            last: &mut DeviceSlice<f32, Captured<'g, Self>>,
        ) -> cuda_rt::Result<()> {
            macro_rules! forked {
                ($name:ident) => {{
                    let fork = stream.fork::<$name<D>>()?;
                    let copy = fork.acquire(stream.release(copy)?)?;
                    if let Some(first) = first {
                        let len = first.len().min(last.len());
                        let seen = stream.lend_all(&fork, (&*first, &mut *last), |(lent, mut last)| {
                            read(&fork, FORKED, &lent[..len], &mut last[..len])?;
                            stream.init_from(stream.alloc_uninit(first.len())?, first)
                        })??;
                        read(stream, WRITTEN, &seen, first)?;
                    }
                    stream.lend(&fork, last, |lent| read(&fork, FORKED, &copy, lent))?
                }};
            }
            match to % 3 {
                0 => forked!(First),
                1 => forked!(Second),
                _ => forked!(Third),
            }
        }
    };
}

macro_rules! named {
    ($($name:ident)*) => { $(
        impl<D: Live> Lane<D> for $name<D> {
            fn claim(owned: Owned<D>) -> Result<Buffers<Self>, Owned<D>> {
                match owned {
                    Owned::$name(bundle) => Ok(bundle),
                    other => Err(other),
                }
            }

            fn keep(_: &Stream<Self>, bundle: Buffers<Self>) -> Instead<D> {
                (State::On(Owned::$name(bundle)), None)
            }

            fork!();
        }
    )* };
}

named! { First Second Third }

impl<D: Live> Lane<D> for Pooled<'_, D> {
    fn claim(owned: Owned<D>) -> Result<Buffers<Self>, Owned<D>> {
        Err(owned)
    }

    /// Nothing stays on a pooled stream: a bundle leaves as a handoff, or does not leave.
    fn keep(stream: &Stream<Self>, bundle: Buffers<Self>) -> Instead<D> {
        match stream.try_release(bundle) {
            Ok(handoff) => (State::Pending(handoff), None),
            Err(refused) => (State::Gone, Some(refused.error)),
        }
    }

    fork!();
}

/// The handles of one device.
pub(crate) struct Lanes<D: Live> {
    pub(crate) gpu: Device<D>,
    pub(crate) first: Stream<First<D>>,
    pub(crate) second: Stream<Second<D>>,
    pub(crate) third: Stream<Third<D>>,
    pub(crate) pool: StreamPool<D>,
}

impl<D: Live> Lanes<D> {
    pub(crate) fn of(gpu: Device<D>) -> cuda_rt::Result<Self> {
        Ok(Self {
            first: gpu.stream()?,
            second: gpu.stream()?,
            third: gpu.stream()?,
            pool: gpu.stream_pool(2)?,
            gpu,
        })
    }

    /// Brings the bundle in transit, from any place.
    pub(crate) fn hand_over(&self, state: State<D>) -> Result<Handoff<IdleBundle<D>>, Instead<D>> {
        match state {
            State::Pending(handoff) => Ok(handoff),
            State::Idle(idle) => Ok(Handoff::ready(idle)),
            State::On(Owned::First(bundle)) => (self.first.try_release(bundle))
                .map_err(|refused| (State::On(Owned::First(refused.value)), Some(refused.error))),
            State::On(Owned::Second(bundle)) => (self.second.try_release(bundle))
                .map_err(|refused| (State::On(Owned::Second(refused.value)), Some(refused.error))),
            State::On(Owned::Third(bundle)) => (self.third.try_release(bundle))
                .map_err(|refused| (State::On(Owned::Third(refused.value)), Some(refused.error))),
            State::Shared(shared, mut leases) => {
                // Some leases end where they are, and others on a stream.
                for (index, lease) in leases.drain(..).enumerate() {
                    if index % 2 == 0 {
                        drop(lease);
                    } else if let Ok(lease) = self.second.try_acquire(lease) {
                        drop(lease);
                    }
                }
                // A leaked lease keeps the bundle shared for ever.
                shared
                    .reclaim()
                    .map_err(|shared| (State::Shared(shared, leases), None))
            }
            State::Gone => Err((State::Gone, None)),
        }
    }

    /// Brings the bundle to `stream`, from any place.
    pub(crate) fn bring<S: Lane<D>>(
        &self,
        state: State<D>,
        stream: &Stream<S>,
    ) -> Result<Buffers<S>, Instead<D>> {
        let state = match state {
            State::On(owned) => match S::claim(owned) {
                Ok(bundle) => return Ok(bundle),
                Err(owned) => State::On(owned),
            },
            State::Idle(idle) => return stream.adopt(idle).map_err(|error| (State::Gone, Some(error))),
            other => other,
        };
        let handoff = self.hand_over(state)?;
        (stream.try_acquire(handoff)).map_err(|refused| (State::Pending(refused.value), Some(refused.error)))
    }
}

/// The expected contents of an object: the sequential model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) parts: Vec<Vec<f32>>,
    /// The block of each part, and the element at which the part starts.
    pub(crate) blocks: Vec<(u64, usize)>,
    pub(crate) host: Option<Vec<f32>>,
}

pub(crate) struct Object<D: Live> {
    pub(crate) state: State<D>,
    pub(crate) expected: Expected,
}
