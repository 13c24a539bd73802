//! [`Communicator`]: collectives, which are operations of several devices together.
//!
//! A collective is one operation of each rank's stream, on memory of that stream. So stream order
//! and handoffs order it like all other work. After its own part each stream waits for the parts of
//! all other ranks, which may write to its memory ([`join_all`]).
//!
//! A collective takes buffers by value and returns them once all parts are enqueued. If a call
//! fails half-way, its buffers may be in flight, and are never returned.

mod ranks;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::{CollectiveError, During, Error, Refused, Result};
use crate::memory::Element;
use crate::observability;
use crate::order::unless::{Unless, unwound};
use cuda_rt_driver as driver;
use cuda_rt_driver::{Collective, DriverError, DriverResult, Number, Part, Reduction};
use ranks::sealed::{Devices as Ranked, RankPart, RankStream, Ranks};
pub use ranks::{Devices, InPlace, OutOfPlace, Rank, Reducible};

/// Devices that take part in collectives together, each as one rank: `G` is the tuple of their
/// tags, and a device's index in the tuple is its rank. Up to eight devices, all different.
///
/// GPUs use NCCL, with the feature `nccl`. Simulated devices of one host have an implementation of
/// their own.
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
/// A rank's part begins when its stream reaches it, and ends only after the parts of all ranks have
/// begun. Collectives of one communicator are enqueued in one order on all ranks. Collectives of
/// two communicators with a common device have no common order: enqueue them from one thread, or
/// order the streams.
///
/// # Failure
/// If a collective cannot be enqueued, the communicator is aborted: this call and every later one
/// return [`Error::Aborted`], and running collectives end. To repeat the call does not help. If
/// [`status`](Self::status) returns an error, any thread can abort the communicator with
/// [`abort`](Self::abort).
///
/// After an abort the devices, their streams and all other memory work as before, unless the error
/// is [sticky](Error::is_sticky). The buffers of the failed collective are leaked. Make a new
/// communicator of the same devices, and new buffers.
///
/// Dropping a communicator waits for its collectives (`ncclCommDestroy`).
pub struct Communicator<G> {
    inner: Box<dyn driver::Communicator>,
    /// The error of the abort. Set once.
    sticky_error: OnceLock<DriverError>,
    /// Held while a collective is enqueued, so that all ranks have the collectives in one order.
    order: Mutex<()>,
    devices: PhantomData<fn(G) -> G>,
}

impl<G> fmt::Debug for Communicator<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("inner", &self.inner)
            .field("sticky_error", &self.sticky_error.get())
            .finish_non_exhaustive()
    }
}

/// The buffers of a refused collective. `None` if the collective may be in flight: its buffers were
/// leaked.
pub type RefusedBuffers<B> = Refused<Option<B>>;

impl<G> Communicator<G> {
    /// Makes each of `devices` a rank, in their order (`ncclCommInitAll`), and gives each access to
    /// the memory of the others ([`Device::peer_access`](crate::Device::peer_access)). Blocks the
    /// host while they connect: up to seconds on GPUs.
    ///
    /// # Errors
    /// [`CollectiveError::SameDevice`] if two of them are one GPU. [`Error::Driver`] without the
    /// feature `nccl` or without an installed NCCL, which the message says, and for devices that
    /// can exchange nothing.
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
            sticky_error: OnceLock::new(),
            order: Mutex::new(()),
            devices: PhantomData,
        })
    }

    /// Reduces the buffers of all ranks, element by element, and writes the result to each buffer
    /// (`ncclAllReduce`). Stream-ordered on each rank's stream. Floats are summed in no particular
    /// order.
    ///
    /// # Hazards prevented
    /// [H38](crate::hazards#h38): the buffers belong to the streams that the collective runs on,
    /// and return to those streams only. Their lengths are compared before anything is enqueued.
    /// Counterexample: with different lengths, ranks wait for ever for elements that never come.
    ///
    /// # Errors
    /// [`CollectiveError::RankLength`]. [`CollectiveError::SharedUnit`] for a part of an allocation
    /// that does not begin and end at a multiple of 16 bytes. [`Error::Aborted`] if this or an
    /// earlier collective could not be enqueued. [`Error::Unordered`] of a device. The buffers are
    /// freed in their streams' order, or leaked if the collective may be in flight.
    /// [`try_all_reduce`](Self::try_all_reduce) gives the buffers back if nothing was enqueued.
    #[track_caller]
    pub fn all_reduce<T: Reducible, R: InPlace<T, G>>(&self, by: Reduction, ranks: R) -> Result<R::Buffers> {
        Ok(self.try_all_reduce(by, ranks)?)
    }

    /// Like [`all_reduce`](Self::all_reduce), but gives the buffers back if nothing was enqueued.
    ///
    /// # Errors
    /// [`Refused`] with the buffers, or with `None` if the collective may be in flight.
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

    /// Copies the buffer of the rank `root` to all others (`ncclBroadcast`). Stream-ordered on each
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

    /// Like [`broadcast`](Self::broadcast), but gives the buffers back if nothing was enqueued.
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

    /// Copies each rank's sent buffer to all ranks, in the order of the ranks (`ncclAllGather`).
    /// Each rank receives as many elements as all ranks send together. Stream-ordered on each
    /// rank's stream.
    ///
    /// # Hazards prevented
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// ```
    /// # use cuda_rt::Device;
    /// # use cuda_rt::simulator::SimConfig;
    /// use cuda_rt::{Communicator, Reduction};
    ///
    /// # cuda_rt::streams! { pub Compute; }
    /// # Device::simulated(SimConfig::default(), |first| first.simulated_peer(|second| {
    /// # let here = first.stream::<Compute<_>>()?;
    /// # let there = second.stream::<Compute<_>>()?;
    /// let ranks = Communicator::new((&first, &second))?;
    /// // Rank 0 has [1, 2], and rank 1 has [3, 4]: each gets all four.
    /// let parts = (here.alloc_from_slice(&[1_u32, 2])?, there.alloc_from_slice(&[3_u32, 4])?);
    /// let all = (here.alloc_zeroed::<u32>(4)?, there.alloc_zeroed::<u32>(4)?);
    /// let ((a, all_a), (b, all_b)) =
    ///     ranks.all_gather((here.rank((parts.0, all.0)), there.rank((parts.1, all.1))))?;
    /// assert_eq!(here.copy_to_vec(&all_a)?, [1, 2, 3, 4]);
    ///
    /// // The reverse: sums of all ranks' elements, a part of them for each rank.
    /// let ((all_a, a), (_all_b, b)) = ranks.reduce_scatter(
    ///     Reduction::Sum,
    ///     (here.rank((all_a, a)), there.rank((all_b, b))),
    /// )?;
    /// assert_eq!(there.copy_to_vec(&b)?, [6, 8]);
    ///
    /// // Rank 0's elements, for all ranks.
    /// let (_a, b) = ranks.broadcast(0, (here.rank(a), there.rank(b)))?;
    /// assert_eq!(there.copy_to_vec(&b)?, [2, 4]);
    /// # drop(all_a);
    /// # Ok::<(), cuda_rt::Error>(())
    /// # }))???;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn all_gather<T: Element, R: OutOfPlace<T, G>>(&self, ranks: R) -> Result<R::Buffers> {
        Ok(self.try_all_gather(ranks)?)
    }

    /// Like [`all_gather`](Self::all_gather), but gives the buffers back if nothing was enqueued.
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

    /// Reduces the sent buffers of all ranks, element by element, and gives each rank one part of
    /// the result (`ncclReduceScatter`). Each rank sends as many elements as it receives, times the
    /// number of ranks. Stream-ordered on each rank's stream.
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

    /// Like [`reduce_scatter`](Self::reduce_scatter), but gives the buffers back if nothing was
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

    /// Asks whether an enqueued collective has failed so far (`ncclCommGetAsyncError`). Does not
    /// block.
    ///
    /// # Errors
    /// [`Error::Driver`] with the error of a rank. A wait for the collectives may then never end:
    /// [`abort`](Self::abort) ends them. [`Error::Aborted`] after an abort.
    ///
    /// ```
    /// # use cuda_rt::Device;
    /// # use cuda_rt::simulator::SimConfig;
    /// use cuda_rt::Communicator;
    ///
    /// # cuda_rt::streams! { pub Compute; }
    /// # Device::simulated(SimConfig::default(), |first| first.simulated_peer(|second| {
    /// # let here = first.stream::<Compute<_>>()?;
    /// # let there = second.stream::<Compute<_>>()?;
    /// let ranks = Communicator::new((&first, &second))?;
    /// ranks.status()?; // no collective has failed so far
    /// ranks.abort(); // every later collective fails at once, and running ones end
    /// let buffers = (here.rank(here.alloc_zeroed::<u32>(4)?), there.rank(there.alloc_zeroed(4)?));
    /// assert!(matches!(ranks.broadcast(0, buffers), Err(cuda_rt::Error::Aborted { .. })));
    /// # Ok::<(), cuda_rt::Error>(())
    /// # }))???;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn status(&self) -> Result<()> {
        const DURING: &str = "Communicator::status";
        self.check(DURING)?;
        self.inner.status().during(DURING)
    }

    /// Ends the running collectives, whose results are then unspecified, and refuses every later
    /// collective (`ncclCommAbort`).
    pub fn abort(&self) {
        let _order = self.in_order();
        self.set_sticky_error(DriverError::with_detail(
            "ncclCommAbort",
            driver::ErrorCode::NCCL_INVALID_USAGE,
            "the communicator was aborted",
        ));
    }

    fn set_sticky_error(&self, error: DriverError) {
        let _ = self.sticky_error.set(error);
        self.inner.abort();
    }

    /// Returns an error if the communicator is aborted.
    fn check(&self, during: &'static str) -> Result<()> {
        self.sticky_error.get().map_or(Ok(()), |cause| {
            Err(Error::Aborted {
                during,
                cause: cause.clone(),
            })
        })
    }

    fn in_order(&self) -> std::sync::MutexGuard<'_, ()> {
        // The lock guards only the order of calls.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a collective whose elements are `scale` numbers each.
    #[track_caller]
    fn run<R: Ranks>(
        &self,
        during: &'static str,
        collective: Collective,
        number: Number,
        scale: usize,
        ranks: R,
    ) -> Result<R::Given, RefusedBuffers<R::Given>> {
        let _at = cuda_rt_driver::CalledAt::new(std::panic::Location::caller());
        let _later = observability::later();
        let _order = self.in_order();
        let ranks = Unless::new(ranks, |ranks: R| {
            ranks.leak();
            self.set_sticky_error(unwound("ncclGroupEnd"));
        });
        let parts = ranks.parts();
        let counted = count_of(collective, &parts, during)
            .and_then(|count| check_units(&parts, during).map(|()| count))
            .map_err(Error::from);
        let ready = counted.and_then(|count| {
            self.check(during)?;
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
                // SAFETY: each part is a buffer of the stream beside it, on its rank's device
                // (`InPlace`, `OutOfPlace`), and has the length compared above. It is live, and
                // freed in that stream's order (BUFFER-2). A rank sends and receives in one buffer,
                // or in two that do not overlap (BUFFER-1).
                unsafe { self.inner.enqueue(collective, number, count, &raw) }
            })
            .and_then(|()| join_all(&streams))
        };
        drop(parts);
        let ranks = ranks.take_back();
        match enqueued {
            Ok(()) => Ok(ranks.into_given()),
            Err(source) => {
                // On every rank it is unknown which work is in flight.
                ranks.leak();
                self.set_sticky_error(source.clone());
                observability::failed(during, &source);
                let error = Error::Aborted {
                    during,
                    cause: source,
                };
                Err(Refused { error, value: None })
            }
        }
    }
}

/// Refuses buffers that share 16 bytes with other owners.
///
/// Where a buffer begins or ends inside such a unit, NCCL reads the whole unit (`prims_ll.h` and
/// `prims_ll128.h` of NCCL 2.28). Work of another stream may write the rest meanwhile.
fn check_units(parts: &[RankPart<'_>], during: &'static str) -> Result<(), CollectiveError> {
    for (rank, part) in parts.iter().enumerate() {
        for (does, shared) in ["sends", "receives"].into_iter().zip(part.shared_units) {
            if let Some((start, end)) = shared {
                return Err(CollectiveError::SharedUnit {
                    during,
                    rank,
                    does,
                    start,
                    end,
                });
            }
        }
    }
    Ok(())
}

/// The count of elements for a collective, if every rank's lengths agree with the lengths of rank
/// 0.
fn count_of(
    collective: Collective,
    parts: &[RankPart<'_>],
    during: &'static str,
) -> Result<usize, CollectiveError> {
    let count = match collective {
        Collective::ReduceScatter(_) => parts[0].receive_len,
        _ => parts[0].send_len,
    };
    // A saturated product is a length that no buffer has, so it never compares equal.
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

/// Does `work`, which enqueues one operation on each of `streams`, and tells the observers of their
/// devices.
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

/// Makes each stream wait for the ends of all other ranks' parts. Later work of the stream runs
/// after all accesses of the collective to its rank's memory.
///
/// The end of a rank's own part does not prove that. In NCCL other ranks write to this rank's
/// memory, and nothing promises that they do so before this rank's part ends. Two counterexamples,
/// on two H200s with NCCL 2.18.1: The root's part of a small broadcast ended two seconds before a
/// receiver's part began. After an [abort](Communicator::abort) one part ended and its buffer was
/// read; then the part of another rank began, and wrote to that buffer.
///
/// An error may come after some waits are enqueued, which only delay their streams.
fn join_all(streams: &[&dyn RankStream]) -> DriverResult<()> {
    let ends = streams.iter().map(|stream| stream.end());
    let ends = ends.collect::<DriverResult<Vec<_>>>()?;
    for stream in streams {
        // `wait_on` skips the wait of a stream for its own event.
        ends.iter().try_for_each(|end| stream.wait_for(end))?;
    }
    Ok(())
}
