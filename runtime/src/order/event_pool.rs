//! Events: a device's pool of them, and leases. A lease is the right to wait for one record of an
//! event; the event goes back to its pool when no one can wait any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use crossbeam_queue::ArrayQueue;

use crate::order::completion::{Completion, Done, Question};
use crate::order::observer::Observed;
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::{Driver, DriverResult, RawEvent};

/// The events of one device that no one waits on.
///
/// It records and leases them, and does nothing else. A lease outlives the device's handles, so the
/// pool holds what a lease needs of the device: the driver, who is told, and the threads that wait.
///
/// An event waits in the pool as the box that a lease holds, its reference to the pool included:
/// handing one out moves a pointer, and taking it back holds the pool meanwhile. The circle that
/// this makes is broken by [`close`](Self::close).
#[derive(Debug)]
pub(crate) struct EventPool {
    driver: Arc<dyn Driver>,
    plain: ArrayQueue<Box<LiveEvent>>,
    timing: ArrayQueue<Box<LiveEvent>>,
    closed: AtomicBool,
    /// Who is told of records and waits.
    observed: Arc<Observed>,
    /// Who waits for events on behalf of tasks.
    completion: Arc<Completion>,
}

/// A live event, of which nothing else knows.
struct LiveEvent {
    raw: RawEvent,
    timing: bool,
    pool: Arc<EventPool>,
}

impl fmt::Debug for LiveEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl Drop for LiveEvent {
    fn drop(&mut self) {
        // SAFETY: live, and nothing else knows of it. An error leaks the event.
        let _ = unsafe { self.pool.driver.destroy_event(self.raw) };
    }
}

impl EventPool {
    /// Events kept for reuse, of each kind; more are destroyed as they come back.
    const KEPT: usize = 1024;

    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        observed: Arc<Observed>,
        completion: Arc<Completion>,
    ) -> Arc<Self> {
        Arc::new(Self {
            driver,
            plain: ArrayQueue::new(Self::KEPT),
            timing: ArrayQueue::new(Self::KEPT),
            closed: AtomicBool::new(false),
            observed,
            completion,
        })
    }

    #[inline]
    fn free(&self, timing: bool) -> &ArrayQueue<Box<LiveEvent>> {
        if timing { &self.timing } else { &self.plain }
    }

    #[cold]
    fn create(self: &Arc<Self>, timing: bool) -> DriverResult<Box<LiveEvent>> {
        let raw = self.driver.create_event(timing)?;
        Ok(Box::new(LiveEvent {
            raw,
            timing,
            pool: Arc::clone(self),
        }))
    }

    /// An event that records all the work of `at` so far: never handed out unrecorded (obligation
    /// 2).
    #[inline]
    pub(crate) fn record(self: &Arc<Self>, at: StreamRef, timing: bool) -> DriverResult<EventLease> {
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
        // Marks are the recording's own.
        if !timing {
            self.observed.event_recorded(at, lease.event().raw);
        }
        Ok(lease)
    }

    /// Destroys the events that no one waits on, and the others as they come back. One that comes
    /// back on another thread at this very moment may be leaked.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.drain();
    }

    /// Destroys the events that no one waits on.
    fn drain(&self) {
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

    use super::{LiveEvent, StreamId};

    /// An event that is out of its pool; back there on drop.
    ///
    /// # Invariants
    /// EVENT-1. The event is live, and nothing else has it: it is owned, and its drop destroys it.
    pub(super) struct PooledEvent(ManuallyDrop<Box<LiveEvent>>);

    impl PooledEvent {
        #[inline]
        pub(super) fn new(event: Box<LiveEvent>) -> Self {
            Self(ManuallyDrop::new(event))
        }
    }

    impl Deref for PooledEvent {
        type Target = LiveEvent;

        #[inline]
        fn deref(&self) -> &LiveEvent {
            &self.0
        }
    }

    impl Drop for PooledEvent {
        #[inline]
        fn drop(&mut self) {
            // SAFETY: taken once: this is the drop.
            let event = unsafe { ManuallyDrop::take(&mut self.0) };
            // Across the push: once others see the event, it keeps the pool for this thread no
            // longer.
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
    /// EVENT-LEASE-1. The event was last recorded on the stream `origin`; as nothing else has it
    /// (EVENT-1), that stays so.
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
        pub(super) fn event(&self) -> &LiveEvent {
            &self.event
        }

        #[inline]
        pub(crate) fn origin(&self) -> StreamId {
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
    #[inline]
    fn pool(&self) -> &Arc<EventPool> {
        &self.event().pool
    }

    #[inline]
    fn driver(&self) -> &dyn Driver {
        &*self.pool().driver
    }

    /// The threads that wait for events of this device.
    pub(crate) fn completion(&self) -> &Completion {
        &self.pool().completion
    }

    /// Does `done` once `question`, about this event and perhaps others of the device, is over.
    pub(crate) fn watch(
        &self,
        question: Arc<dyn Question>,
        origin: Option<StreamId>,
        done: Done,
    ) -> io::Result<()> {
        let pool = Arc::clone(self.pool());
        let drain = move || {
            // What came back while the pool was being closed.
            if pool.closed.load(Ordering::SeqCst) {
                pool.drain();
            }
        };
        self.completion().watch(question, origin, done, drain)
    }

    /// Makes `at` wait on the GPU; nothing where the event came from, for a stream runs in order.
    #[inline]
    pub(crate) fn wait_on(&self, at: StreamRef) -> DriverResult<()> {
        if self.origin() == at.id {
            return Ok(());
        }
        // SAFETY: EVENT-1, and the stream is kept by the device core.
        unsafe { self.driver().wait_event(at.raw, self.event().raw) }?;
        self.pool().observed.stream_waits(at, self.event().raw);
        Ok(())
    }

    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        // SAFETY: EVENT-1.
        let wait = || unsafe { self.driver().synchronize_event(self.event().raw) };
        // Marks are read by the recording itself, and by others after what they mark.
        if self.event().timing {
            return wait();
        }
        self.pool().observed.host_waits(self.origin(), wait)
    }

    pub(crate) fn query(&self) -> DriverResult<bool> {
        // SAFETY: EVENT-1.
        unsafe { self.driver().query_event(self.event().raw) }
    }

    /// Milliseconds from `earlier` to this.
    ///
    /// # Safety
    /// Both are timing events of one device, and were seen over.
    pub(crate) unsafe fn elapsed_ms_since(&self, earlier: &Self) -> DriverResult<f32> {
        // SAFETY: EVENT-LEASE-1: both were recorded; the rest is this function's contract.
        unsafe { self.driver().elapsed_ms(earlier.event().raw, self.event().raw) }
    }
}

impl Question for EventLease {
    fn ask(&self) -> DriverResult<bool> {
        self.query()
    }
}
