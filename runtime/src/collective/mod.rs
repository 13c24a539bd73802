//! [`Communicator`]: operations that several devices take part in.
//!
//! A collective is one operation of each rank's stream, on memory of that stream: so what orders
//! everything else orders it too. Behind its part each stream waits for the parts of all other
//! ranks, which may write to its memory ([`join_all`]).
//!
//! Buffers are given by value and come back once all is enqueued: what a call that failed half-way
//! left in flight is never seen again.

mod ranks;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::{CollectiveError, During, Error, Refused, Result};
use crate::memory::Element;
use crate::order::unless::{Unless, unwound};
use cuda_rt_driver as driver;
use cuda_rt_driver::{Collective, DriverError, DriverResult, Number, Part, Reduction};
use ranks::sealed::{Devices as Ranked, RankPart, RankStream, Ranks};
pub use ranks::{Devices, InPlace, OutOfPlace, Rank, Reducible};

/// Devices that take part in collectives together, each as one rank: `G` is the tuple of their
/// tags, and a device's place in it its rank. Up to eight, all different.
///
/// On GPUs it is NCCL's, with the feature `nccl`; simulated devices of one host have one of their
/// own.
///
/// ```
/// # use cuda_rt::Device;
/// # use cuda_rt::simulator::SimConfig;
/// use cuda_rt::{Communicator, Reduction};
///
/// cuda_rt::streams! { pub Compute; }
///
/// # Device::simulated(SimConfig::default(), |first| first.simulated_peer(|second| {
/// let (here, there) = (first.stream::<Compute<_>>()?, second.stream::<Compute<_>>()?);
/// let ranks = Communicator::new((&first, &second))?;
///
/// let (mut a, mut b) = (here.alloc_zeroed::<f32>(1024)?, there.alloc_zeroed::<f32>(1024)?);
/// here.fill(&mut a, 1.0)?;
/// there.fill(&mut b, 2.0)?;
/// let (a, b) = ranks.all_reduce(Reduction::Sum, (here.rank(a), there.rank(b)))?; // 3.0 everywhere
/// # drop((a, b));
/// # Ok::<(), cuda_rt::Error>(())
/// # }))???;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
///
/// # Deadlocks
/// A rank's part begins when its stream gets there, and ends when all have begun. Collectives of
/// one communicator are enqueued in one order on all ranks. Those of two communicators whose
/// devices overlap are not: enqueue them from one thread, or order the streams.
///
/// # Failure
/// Once a collective could not be enqueued, the communicator is aborted: every later call fails
/// with the same error, and what is running ends. So does [`abort`](Self::abort), from any thread,
/// when [`status`](Self::status) tells of an error.
///
/// Dropping a communicator waits for its collectives (`ncclCommDestroy`).
pub struct Communicator<G> {
    inner: Box<dyn driver::Communicator>,
    /// Why it was aborted. Set once.
    broken: OnceLock<DriverError>,
    /// One collective is enqueued at a time, so that all ranks have them in one order.
    order: Mutex<()>,
    devices: PhantomData<fn(G) -> G>,
}

impl<G> fmt::Debug for Communicator<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("inner", &self.inner)
            .field("broken", &self.broken.get())
            .finish_non_exhaustive()
    }
}

/// The buffers of a collective that was refused; `None` where it may be in flight, and what it uses
/// was leaked.
pub type RefusedBuffers<B> = Refused<Option<B>>;

impl<G> Communicator<G> {
    /// Makes each of `devices` a rank, in their order (`ncclCommInitAll`), and lets each get at the
    /// memory of the others ([`Device::peer_access`](crate::Device::peer_access)). Blocks while
    /// they connect: up to seconds on GPUs.
    ///
    /// # Errors
    /// [`CollectiveError::SameDevice`] if two of them are one GPU. [`Error::Driver`]: without the
    /// feature `nccl`, or where no NCCL is installed, the message says so; and for devices that can
    /// exchange nothing.
    pub fn new<L: Devices + Ranked<Tags = G>>(devices: L) -> Result<Self> {
        const DURING: &str = "Communicator::new";
        let drivers = devices.drivers().0;
        let peers: Vec<_> = drivers.iter().map(|driver| driver.peer()).collect();
        for (rank, peer) in peers.iter().enumerate() {
            if let Some(first) = peers[..rank].iter().position(|other| other == peer) {
                return Err(CollectiveError::SameDevice { first, second: rank }.into());
            }
            for driver in &drivers {
                driver.peer_access(*peer).during(DURING)?;
            }
        }
        let inner = drivers[0].communicator(&peers).during(DURING)?;
        Ok(Self {
            inner,
            broken: OnceLock::new(),
            order: Mutex::new(()),
            devices: PhantomData,
        })
    }

    /// Reduces what all ranks hold, element by element, and leaves the result with each, in place
    /// (`ncclAllReduce`). Stream-ordered on each rank's stream. Sums of floats are taken in no
    /// particular order.
    ///
    /// # Hazards prevented
    /// H38: the buffers belong to the streams that the collective runs on, and are given back for
    /// those only; their lengths are compared before anything is enqueued. Counterexample: ranks
    /// that wait for elements of each other that never come, for ever.
    ///
    /// # Errors
    /// [`CollectiveError::RankLength`], and [`Error::Driver`], after which the communicator is of
    /// no more use. The buffers are freed in their streams' order, or leaked where the collective
    /// may be in flight; [`try_all_reduce`](Self::try_all_reduce) gives back what it can.
    #[track_caller]
    pub fn all_reduce<T: Reducible, R: InPlace<T, G>>(&self, by: Reduction, ranks: R) -> Result<R::Buffers> {
        Ok(self.try_all_reduce(by, ranks)?)
    }

    /// As [`all_reduce`](Self::all_reduce), giving the buffers back when nothing was enqueued.
    ///
    /// # Errors
    /// [`Refused`] with the buffers, or none where the collective may be in flight.
    #[track_caller]
    pub fn try_all_reduce<T: Reducible, R: InPlace<T, G>>(
        &self,
        by: Reduction,
        ranks: R,
    ) -> Result<R::Buffers, RefusedBuffers<R::Buffers>> {
        self.run(
            "Communicator::all_reduce",
            Collective::AllReduce(by),
            T::NUMBER,
            1,
            ranks,
        )
    }

    /// Copies what the rank `root` holds to all others (`ncclBroadcast`). Stream-ordered on each
    /// rank's stream.
    ///
    /// # Hazards prevented
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Panics
    /// If there is no such rank.
    #[track_caller]
    pub fn broadcast<T: Element, R: InPlace<T, G>>(&self, root: usize, ranks: R) -> Result<R::Buffers> {
        Ok(self.try_broadcast(root, ranks)?)
    }

    /// As [`broadcast`](Self::broadcast), giving the buffers back when nothing was enqueued.
    ///
    /// # Errors
    /// As [`try_all_reduce`](Self::try_all_reduce).
    ///
    /// # Panics
    /// If there is no such rank.
    #[track_caller]
    pub fn try_broadcast<T: Element, R: InPlace<T, G>>(
        &self,
        root: usize,
        ranks: R,
    ) -> Result<R::Buffers, RefusedBuffers<R::Buffers>> {
        let count = ranks.parts().len();
        assert!(root < count, "rank {root} of {count} is to broadcast");
        let collective = Collective::Broadcast { root };
        self.run(
            "Communicator::broadcast",
            collective,
            Number::U8,
            size_of::<T>(),
            ranks,
        )
    }

    /// Copies what each rank sends to all, one after another by rank: each receives as many
    /// elements as all send together (`ncclAllGather`). Stream-ordered on each rank's stream.
    ///
    /// # Hazards prevented
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn all_gather<T: Element, R: OutOfPlace<T, G>>(&self, ranks: R) -> Result<R::Buffers> {
        Ok(self.try_all_gather(ranks)?)
    }

    /// As [`all_gather`](Self::all_gather), giving the buffers back when nothing was enqueued.
    ///
    /// # Errors
    /// As [`try_all_reduce`](Self::try_all_reduce).
    #[track_caller]
    pub fn try_all_gather<T: Element, R: OutOfPlace<T, G>>(
        &self,
        ranks: R,
    ) -> Result<R::Buffers, RefusedBuffers<R::Buffers>> {
        let collective = Collective::AllGather;
        self.run(
            "Communicator::all_gather",
            collective,
            Number::U8,
            size_of::<T>(),
            ranks,
        )
    }

    /// Reduces what all ranks send, element by element, and leaves each rank its part of the
    /// result: as many elements as it receives, which all send as often as there are ranks
    /// (`ncclReduceScatter`). Stream-ordered on each rank's stream.
    ///
    /// # Hazards prevented
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    #[track_caller]
    pub fn reduce_scatter<T: Reducible, R: OutOfPlace<T, G>>(
        &self,
        by: Reduction,
        ranks: R,
    ) -> Result<R::Buffers> {
        Ok(self.try_reduce_scatter(by, ranks)?)
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), giving the buffers back when nothing was
    /// enqueued.
    ///
    /// # Errors
    /// As [`try_all_reduce`](Self::try_all_reduce).
    #[track_caller]
    pub fn try_reduce_scatter<T: Reducible, R: OutOfPlace<T, G>>(
        &self,
        by: Reduction,
        ranks: R,
    ) -> Result<R::Buffers, RefusedBuffers<R::Buffers>> {
        let collective = Collective::ReduceScatter(by);
        self.run("Communicator::reduce_scatter", collective, T::NUMBER, 1, ranks)
    }

    /// Whether what was enqueued runs well, as far as is known (`ncclCommGetAsyncError`). Does not
    /// block.
    ///
    /// # Errors
    /// [`Error::Driver`]: what a rank ran into, or why the communicator was aborted. Waiting for
    /// its collectives may then take for ever: [`abort`](Self::abort) ends them.
    pub fn status(&self) -> Result<()> {
        self.check()
            .and_then(|()| self.inner.status())
            .during("Communicator::status")
    }

    /// Ends what is running, with unspecified results, and lets nothing more be enqueued
    /// (`ncclCommAbort`).
    pub fn abort(&self) {
        let _order = self.in_order();
        self.break_with(DriverError::with_detail(
            "ncclCommAbort",
            driver::ErrorCode::NCCL_INVALID_USAGE,
            "the communicator was aborted",
        ));
    }

    fn break_with(&self, error: DriverError) {
        let _ = self.broken.set(error);
        self.inner.abort();
    }

    fn check(&self) -> DriverResult<()> {
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    fn in_order(&self) -> std::sync::MutexGuard<'_, ()> {
        // Guards nothing but the order of calls.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A collective of elements that are `scale` numbers each.
    #[track_caller]
    fn run<R: Ranks>(
        &self,
        during: &'static str,
        collective: Collective,
        number: Number,
        scale: usize,
        ranks: R,
    ) -> Result<R::Given, RefusedBuffers<R::Given>> {
        let _at = cuda_rt_checker::CalledAt::new(std::panic::Location::caller());
        let _order = self.in_order();
        let ranks = Unless::new(ranks, |ranks: R| {
            ranks.leak();
            self.break_with(unwound("ncclGroupEnd"));
        });
        let parts = ranks.parts();
        let counted = count_of(collective, &parts, during).map_err(Error::from);
        let ready = counted.and_then(|count| {
            self.check().during(during)?;
            parts
                .iter()
                .try_for_each(|rank| rank.stream.check())
                .during(during)?;
            Ok(count * scale)
        });
        let count = match ready {
            Ok(count) => count,
            Err(error) => {
                drop(parts);
                let value = Some(ranks.take_back().into_given());
                return Err(Refused { error, value });
            }
        };
        let enqueued = if count == 0 {
            Ok(())
        } else {
            let raw: Vec<Part> = parts.iter().map(|rank| rank.part).collect();
            let streams: Vec<_> = parts.iter().map(|rank| rank.stream).collect();
            let bytes = count * number.bytes();
            around_all(&streams, collective.name(), bytes, &mut || {
                // SAFETY: each part is a buffer of the stream that is given with it, on its rank's
                // device (`InPlace`, `OutOfPlace`), of the length that was compared; it is live,
                // freed in that stream's order (BUFFER-2), and what a rank sends and receives are
                // one buffer or two (BUFFER-1).
                unsafe { self.inner.enqueue(collective, number, count, &raw) }
            })
            .and_then(|()| join_all(&streams))
        };
        drop(parts);
        let ranks = ranks.take_back();
        match enqueued {
            Ok(()) => Ok(ranks.into_given()),
            Err(source) => {
                // What is in flight is not known, on any rank.
                ranks.leak();
                self.break_with(source.clone());
                let error = Error::Driver { during, source };
                Err(Refused { error, value: None })
            }
        }
    }
}

/// Elements that a collective counts, if every rank's lengths go with those of the first.
fn count_of(
    collective: Collective,
    parts: &[RankPart<'_>],
    during: &'static str,
) -> Result<usize, CollectiveError> {
    let count = match collective {
        Collective::ReduceScatter(_) => parts[0].receive_len,
        _ => parts[0].send_len,
    };
    // Cannot overflow where it matters: a length that does is none that a buffer has.
    let (send, receive) = match collective {
        Collective::AllGather => (count, count.saturating_mul(parts.len())),
        Collective::ReduceScatter(_) => (count.saturating_mul(parts.len()), count),
        _ => (count, count),
    };
    let wrong = parts.iter().enumerate().find_map(|(rank, part)| {
        let lens = [
            ("sends", part.send_len, send),
            ("receives", part.receive_len, receive),
        ];
        let (does, len, expected) = lens.into_iter().find(|(_, len, expected)| len != expected)?;
        Some(CollectiveError::RankLength {
            during,
            rank,
            does,
            len,
            expected,
        })
    });
    wrong.map_or(Ok(count), Err)
}

/// Does `work`, which enqueues one operation on each of `streams`, and tells the recordings of
/// their devices.
fn around_all(
    streams: &[&dyn RankStream],
    label: &'static str,
    bytes: usize,
    work: &mut dyn FnMut() -> DriverResult<()>,
) -> DriverResult<()> {
    match streams {
        [] => work(),
        [first, others @ ..] => first.around(label, bytes, &mut || around_all(others, label, bytes, work)),
    }
}

/// Makes each stream wait for the ends of all other ranks' parts: from then on, nothing that the
/// collective does to a rank's memory can be under way.
///
/// A rank's own part does not say so. NCCL lets the others write to this rank's memory, and nothing
/// promises that they do it before this rank's part ends. Counterexamples: the root's part of a
/// small broadcast ended two seconds before a receiver's began; after an
/// [abort](Communicator::abort) one part ended, its buffer was read, and the part of another rank,
/// which began later, wrote there (two H200s, NCCL 2.18.1).
///
/// An error may come after some waits, which only delay.
fn join_all(streams: &[&dyn RankStream]) -> DriverResult<()> {
    let ends = streams.iter().map(|stream| stream.end());
    let ends = ends.collect::<DriverResult<Vec<_>>>()?;
    for stream in streams {
        // It need not wait for its own, and `wait_on` leaves that out.
        ends.iter().try_for_each(|end| stream.wait_for(end))?;
    }
    Ok(())
}
