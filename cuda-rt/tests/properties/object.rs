//! The objects of programs: streams, the one bundle that programs move, and the places where the
//! bundle may be.

use cuda_rt::{
    AnyDevice, AnyStream, Branded, Captured, Device, DeviceBuffer, DeviceSlice, Error, Handoff, Idle, Kept,
    Lease, Live, ManagedBuffer, Metadata, PinnedBuffer, PinnedSlice, Place, Pooled, Priority, Shared, Stream,
    StreamPool, StreamTag,
};

use crate::counts::{Counters, Kind};
use crate::plan::{Kernel, WORKERS};
use crate::work::read;

cuda_rt::streams! {
    pub(crate) First, priority = High;
    pub(crate) Second;
    pub(crate) Third;
}

/// The bundle of a program: some device memory, and perhaps some pinned and managed memory.
#[derive(cuda_rt::Bundle)]
pub(crate) struct Buffers<P: Place = Idle> {
    pub(crate) parts: Vec<DeviceBuffer<f32, P>>,
    pub(crate) host: Option<PinnedBuffer<f32, P>>,
    pub(crate) unified: Unified<P>,
    /// One letter for each time that the host wrote the memory.
    pub(crate) label: Metadata<String, P>,
    #[bundle(plain)]
    pub(crate) number: u32,
}

/// Managed memory, or none. An enum, so that programs move enums too.
#[derive(cuda_rt::Bundle)]
pub(crate) enum Unified<P: Place = Idle> {
    Absent,
    Managed(ManagedBuffer<f32, P>),
}

impl<S: StreamTag> Buffers<S> {
    /// All memory of the device, the managed memory last, and the pinned memory.
    pub(crate) fn slices(&mut self) -> (Vec<&mut DeviceSlice<f32, S>>, Option<&mut PinnedSlice<f32, S>>) {
        let mut parts: Vec<_> = self.parts.iter_mut().map(|part| &mut **part).collect();
        if let Unified::Managed(managed) = &mut self.unified {
            parts.push(managed);
        }
        (parts, self.host.as_deref_mut())
    }
}

/// [`Buffers::slices`] of the views of a bundle. A macro, because the types of views have several
/// lifetimes.
macro_rules! slices {
    ($views:expr) => {{
        let views = $views;
        let mut parts: Vec<_> = views.parts.iter_mut().map(|part| &mut **part).collect();
        if let $crate::object::UnifiedView::Managed(managed) = &mut views.unified {
            parts.push(&mut **managed);
        }
        (parts, views.host.as_deref_mut())
    }};
}
pub(crate) use slices;

pub(crate) type IdleBundle<D> = Buffers<Idle<D>>;

/// A bundle that a named stream owns.
pub(crate) enum Owned<D: Live> {
    First(Buffers<First<D>>),
    Second(Buffers<Second<D>>),
    Third(Buffers<Third<D>>),
    /// A run-time stream keeps the bundle.
    Kept(KeptBundle),
}

pub(crate) type KeptBundle = Kept<Buffers<Idle<AnyDevice>>>;

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
    fn claim(stream: &Stream<Self>, owned: Owned<D>) -> Result<Buffers<Self>, Owned<D>>;

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
            fn claim(_: &Stream<Self>, owned: Owned<D>) -> Result<Buffers<Self>, Owned<D>> {
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
    fn claim(_: &Stream<Self>, owned: Owned<D>) -> Result<Buffers<Self>, Owned<D>> {
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

impl<D: Live> Lane<D> for Branded<'_, D> {
    fn claim(stream: &Stream<Self>, owned: Owned<D>) -> Result<Buffers<Self>, Owned<D>> {
        match owned {
            Owned::Kept(kept) => stream.open(kept).map_err(|refused| {
                assert!(
                    matches!(refused.error, Error::OtherStream { .. }),
                    "{}",
                    refused.error
                );
                Owned::Kept(refused.value)
            }),
            other => Err(other),
        }
    }

    fn keep(stream: &Stream<Self>, bundle: Buffers<Self>) -> Instead<D> {
        (State::On(Owned::Kept(stream.keep(bundle))), None)
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
    pub(crate) workers: [AnyStream; WORKERS as usize],
    /// What the program did on the device.
    pub(crate) counters: Counters,
}

impl<D: Live> Lanes<D> {
    pub(crate) fn of(gpu: Device<D>) -> cuda_rt::Result<Self> {
        Ok(Self {
            first: gpu.stream()?,
            second: gpu.stream()?,
            third: gpu.stream()?,
            pool: gpu.stream_pool(2)?,
            workers: [
                gpu.create_stream("first worker", Priority::Low)?,
                gpu.create_stream("second worker", Priority::High)?,
            ],
            counters: Counters::default(),
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
            State::On(Owned::Kept(kept)) => {
                let owner = kept.stream().clone();
                let released = owner.run_on(&self.gpu, |stream| {
                    let bundle = stream
                        .open(kept)
                        .unwrap_or_else(|refused| panic!("{}", refused.error));
                    stream
                        .try_release(bundle)
                        .map_err(|refused| (stream.keep(refused.value), refused.error))
                });
                match released.expect("a stream of this device") {
                    Ok(handoff) => {
                        self.counters.did(Kind::ReleaseKept);
                        Ok(handoff)
                    }
                    Err((kept, error)) => Err((State::On(Owned::Kept(kept)), Some(error))),
                }
            }
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
            State::On(owned) => {
                let was_kept = matches!(owned, Owned::Kept(_));
                match S::claim(stream, owned) {
                    Ok(bundle) => {
                        if was_kept {
                            self.counters.did(Kind::OpenSame);
                        }
                        return Ok(bundle);
                    }
                    Err(Owned::Kept(kept)) => {
                        let opened = stream.open_ordered(kept);
                        let opened = opened.inspect(|_| self.counters.did(Kind::OpenOrdered));
                        return opened
                            .map_err(|refused| (State::On(Owned::Kept(refused.value)), Some(refused.error)));
                    }
                    Err(owned) => State::On(owned),
                }
            }
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
    pub(crate) managed: Option<Vec<f32>>,
    pub(crate) label: String,
}

impl Expected {
    /// The lengths of all memory of the device, as in [`Buffers::slices`].
    pub(crate) fn lens(&self) -> Vec<usize> {
        self.parts.iter().chain(&self.managed).map(Vec::len).collect()
    }

    /// As [`Buffers::slices`].
    pub(crate) fn slices(&mut self) -> (Vec<&mut Vec<f32>>, Option<&mut Vec<f32>>) {
        (
            self.parts.iter_mut().chain(&mut self.managed).collect(),
            self.host.as_mut(),
        )
    }

    /// Makes all values unknown. Values computed from unknown values are unknown too.
    pub(crate) fn forget_values(&mut self) {
        let values = self
            .parts
            .iter_mut()
            .chain(&mut self.managed)
            .chain(&mut self.host);
        values.for_each(|values| values.fill(f32::NAN));
    }

    /// The length of the pinned memory.
    pub(crate) fn pinned(&self) -> Option<usize> {
        self.host.as_ref().map(Vec::len)
    }
}

pub(crate) struct Object<D: Live> {
    pub(crate) state: State<D>,
    pub(crate) expected: Expected,
}
