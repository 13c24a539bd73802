//! Events that come from a pool and go back when no one can wait on them again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::completion::Completion;
use crate::driver::{Driver, DriverError, DriverResult, RawEvent, RawStream};
use crate::timeline::Recorder;

/// Identity of a CUDA stream for the life of the process: a counter, never reused, unlike a CUDA handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(u64);

impl StreamId {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // A counter needs no ordering; 2^64 streams are not reached.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Marks streams that someone else owns.
    const ADOPTED: u64 = 1 << 63;

    /// The identity of a stream that someone else owns, and may destroy once nothing of ours is named after it.
    pub(crate) fn adopted() -> Self {
        Self(Self::new().0 | Self::ADOPTED)
    }

    #[inline]
    pub(crate) fn is_adopted(self) -> bool {
        self.0 & Self::ADOPTED != 0
    }
}

/// A CUDA stream, as buffers remember it. Copying it copies no ownership: the device core keeps its streams.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct StreamAt {
    pub(crate) raw: RawStream,
    pub(crate) id: StreamId,
}

/// The events of one device that no one waits on.
///
/// An event waits in the pool as the box that a lease holds, its reference to the pool included: handing one out moves a
/// pointer, and taking it back holds the pool meanwhile. The circle that this makes is broken by [`close`](Self::close).
#[derive(Debug)]
pub(crate) struct EventPool {
    driver: Arc<dyn Driver>,
    plain: ArrayQueue<Box<Event>>,
    timing: ArrayQueue<Box<Event>>,
    closed: AtomicBool,
    recorder: Recorder,
    /// Who waits for events on behalf of tasks.
    completion: Completion,
}

/// A live event, of which nothing else knows.
struct Event {
    raw: RawEvent,
    timing: bool,
    pool: Arc<EventPool>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: live, and nothing else knows of it. An error leaks the event.
        let _ = unsafe { self.pool.driver.destroy_event(self.raw) };
    }
}

impl EventPool {
    /// Events kept for reuse, of each kind; more are destroyed as they come back.
    const KEPT: usize = 1024;

    pub(crate) fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self {
            driver,
            plain: ArrayQueue::new(Self::KEPT),
            timing: ArrayQueue::new(Self::KEPT),
            closed: AtomicBool::new(false),
            recorder: Recorder::default(),
            completion: Completion::default(),
        })
    }

    /// Who is told of what the device does.
    #[inline]
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    #[inline]
    fn free(&self, timing: bool) -> &ArrayQueue<Box<Event>> {
        if timing { &self.timing } else { &self.plain }
    }

    #[cold]
    fn create(self: &Arc<Self>, timing: bool) -> DriverResult<Box<Event>> {
        let raw = self.driver.create_event(timing)?;
        Ok(Box::new(Event {
            raw,
            timing,
            pool: Arc::clone(self),
        }))
    }

    /// An event that records all the work of `at` so far: never handed out unrecorded (obligation 2).
    #[inline]
    pub(crate) fn record(self: &Arc<Self>, at: StreamAt, timing: bool) -> DriverResult<EventLease> {
        let event = match self.free(timing).pop() {
            Some(event) => event,
            None => self.create(timing)?,
        };
        // Back to the pool by its drop, also where the record fails.
        let event = PooledEvent::new(event);
        // SAFETY: EVENT-1 of the event; the stream is kept by the device core.
        unsafe { self.driver.record_event(event.raw, at.raw) }?;
        // SAFETY: EVENT-LEASE-1: that was the record.
        let lease = unsafe { EventLease::new(event, at.id) };
        if !timing && self.recorder.is_on() {
            self.recorder.note_record(at, lease.raw());
        }
        Ok(lease)
    }

    /// Destroys the events that no one waits on, and the others as they come back. One that comes back on another
    /// thread at this very moment may be leaked.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.completion.close();
        self.drain();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    pub(crate) fn completion(&self) -> &Completion {
        &self.completion
    }

    /// Destroys the events that no one waits on.
    pub(crate) fn drain(&self) {
        for queue in [&self.plain, &self.timing] {
            while queue.pop().is_some() {}
        }
    }
}

mod def {
    use std::mem::ManuallyDrop;
    use std::ops::Deref;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::{Event, StreamId};

    /// An event that is out of its pool; back there on drop.
    ///
    /// # Invariants
    /// EVENT-1. The event is live, and nothing else has it: it is owned, and its drop destroys it.
    pub(super) struct PooledEvent(ManuallyDrop<Box<Event>>);

    impl PooledEvent {
        #[inline]
        pub(super) fn new(event: Box<Event>) -> Self {
            Self(ManuallyDrop::new(event))
        }
    }

    impl Deref for PooledEvent {
        type Target = Event;

        #[inline]
        fn deref(&self) -> &Event {
            &self.0
        }
    }

    impl Drop for PooledEvent {
        #[inline]
        fn drop(&mut self) {
            // SAFETY: taken once: this is the drop.
            let event = unsafe { ManuallyDrop::take(&mut self.0) };
            // Across the push: once others see the event, it keeps the pool for this thread no longer.
            let pool = Arc::clone(&event.pool);
            if pool.closed.load(Ordering::Relaxed) {
                return;
            }
            // A full queue gives the event back, to be destroyed.
            drop(pool.free(event.timing).push(event));
        }
    }

    /// The only right to wait on one event's record; back to the pool on drop (obligation 5).
    ///
    /// # Invariants
    /// EVENT-LEASE-1. The event was last recorded on the stream `origin`; as nothing else has it (EVENT-1), that stays so.
    pub(crate) struct EventLease {
        event: PooledEvent,
        origin: StreamId,
    }

    impl EventLease {
        /// # Safety
        /// EVENT-LEASE-1 holds.
        #[inline]
        pub(super) unsafe fn new(event: PooledEvent, origin: StreamId) -> Self {
            Self { event, origin }
        }

        #[inline]
        pub(super) fn event(&self) -> &Event {
            &self.event
        }

        #[inline]
        pub(super) fn origin(&self) -> StreamId {
            self.origin
        }
    }
}
pub(crate) use def::EventLease;
use def::PooledEvent;

impl fmt::Debug for EventLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.event(), self.origin())
    }
}

impl EventLease {
    pub(crate) fn raw(&self) -> RawEvent {
        self.event().raw
    }

    #[inline]
    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.event().pool.driver
    }

    #[inline]
    fn recorder(&self) -> &Recorder {
        &self.event().pool.recorder
    }

    /// Makes `at` wait on the GPU; nothing where the event came from, for a stream runs in order.
    #[inline]
    pub(crate) fn wait_on(&self, at: StreamAt) -> DriverResult<()> {
        if self.origin() == at.id {
            return Ok(());
        }
        // SAFETY: EVENT-1, and the stream is kept by the device core.
        unsafe { self.driver().wait_event(at.raw, self.event().raw) }?;
        let recorder = self.recorder();
        if recorder.is_on() {
            recorder.note_wait(at, self.raw());
        }
        Ok(())
    }

    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        // SAFETY: EVENT-1.
        let wait = || unsafe { self.driver().synchronize_event(self.event().raw) };
        let recorder = self.recorder();
        // Marks are read by the recording itself, and by others after what they mark.
        if recorder.is_on() && !self.event().timing {
            return recorder.host_wait(self.origin(), wait);
        }
        wait()
    }

    pub(crate) fn query(&self) -> DriverResult<bool> {
        // SAFETY: EVENT-1.
        unsafe { self.driver().query_event(self.event().raw) }
    }
}

/// What must be over before something may be touched: nothing, one event, or several.
#[derive(Debug)]
#[doc(hidden)]
pub struct Fence(Kind);

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Done,
    One(EventLease),
    Shared(Arc<EventLease>),
    /// Two or more, each of them once.
    Several(Vec<Arc<EventLease>>),
    /// The end of a use could not be recorded, so it is never known to be over.
    Lost(DriverError),
}

impl From<EventLease> for Fence {
    fn from(lease: EventLease) -> Self {
        Self(Kind::One(lease))
    }
}

impl Fence {
    pub(crate) const DONE: Self = Self(Kind::Done);

    /// A fence that is never over: waiting for it fails with `error`.
    pub(crate) fn lost(error: DriverError) -> Self {
        Self(Kind::Lost(error))
    }

    /// Over when all of `fences` are; never, if one of them is lost. Flat however often it is done, and an event that
    /// several of them share is waited for once.
    pub(crate) fn all(fences: impl IntoIterator<Item = Self>) -> Self {
        let mut leases: Vec<Arc<EventLease>> = Vec::new();
        for fence in fences {
            match fence.0 {
                Kind::Done => {}
                Kind::One(lease) => leases.push(Arc::new(lease)),
                Kind::Shared(lease) => leases.push(lease),
                Kind::Several(more) => leases.extend(more),
                Kind::Lost(error) => return Self::lost(error),
            }
        }
        leases.sort_unstable_by_key(Arc::as_ptr);
        leases.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Self(match leases.len() {
            0 => Kind::Done,
            1 => leases.pop().map_or(Kind::Done, Kind::Shared),
            _ => Kind::Several(leases),
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.0, Kind::Done)
    }

    /// Does `each` with every event, up to the first error.
    #[inline]
    fn try_each(&self, mut each: impl FnMut(&EventLease) -> DriverResult<()>) -> DriverResult<()> {
        match &self.0 {
            Kind::Done => Ok(()),
            Kind::One(lease) => each(lease),
            Kind::Shared(lease) => each(lease),
            Kind::Several(leases) => leases.iter().try_for_each(|lease| each(lease)),
            Kind::Lost(error) => Err(error.clone()),
        }
    }

    /// Makes `at` wait for all of it on the GPU. After an error some waits may stand, which only delays.
    #[inline]
    pub(crate) fn wait_on(&self, at: StreamAt) -> DriverResult<()> {
        self.try_each(|lease| lease.wait_on(at))
    }

    /// Blocks the host until all of it is over.
    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        self.try_each(EventLease::synchronize)
    }

    /// Whether all of it is over.
    pub(crate) fn query(&self) -> DriverResult<bool> {
        let mut over = true;
        self.try_each(|lease| {
            // Once one is pending the others need not be asked.
            over = over && lease.query()?;
            Ok(())
        })?;
        Ok(over)
    }

    /// The pool that its events come from, and the stream that recorded them if they are one; `None` if there are none.
    pub(crate) fn watched_by(&self) -> Option<(&Arc<EventPool>, Option<StreamId>)> {
        let (lease, origin) = match &self.0 {
            Kind::Done | Kind::Lost(_) => return None,
            Kind::One(lease) => (lease, Some(lease.origin())),
            Kind::Shared(lease) => (&**lease, Some(lease.origin())),
            Kind::Several(leases) => (&**leases.first()?, None),
        };
        Some((&lease.event().pool, origin))
    }

    /// A second holder of the same events.
    pub(crate) fn share(&mut self) -> Self {
        self.0 = match std::mem::take(&mut self.0) {
            Kind::One(lease) => Kind::Shared(Arc::new(lease)),
            other => other,
        };
        Self(match &self.0 {
            Kind::Shared(lease) => Kind::Shared(Arc::clone(lease)),
            Kind::Several(leases) => Kind::Several(leases.clone()),
            Kind::Lost(error) => Kind::Lost(error.clone()),
            Kind::Done | Kind::One(_) => Kind::Done,
        })
    }
}
