//! A device's pool of events, and the leases of these events. A lease is the right to wait for one
//! record of an event. When the lease is dropped, the event returns to its pool.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{fmt, io, mem};

use crate::order::completion::{Completion, Done, Question};
use crate::order::observer::Observed;
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::{Driver, DriverError, DriverResult, RawEvent, RawPeer};

/// The events of one device that have no lease.
///
/// The pool records events and leases them. A lease outlives the device's handles, so the pool
/// holds the parts of the device that a lease needs: the driver, the observer, and the threads that
/// wait.
///
/// An event lies in the pool in its box, which includes a reference to the pool. A lease takes the
/// box: that moves one pointer. The box's reference keeps the pool alive while the event returns.
/// [`close`](Self::close) breaks the cycle of references.
#[derive(Debug)]
pub(crate) struct EventPool {
    driver: Arc<dyn Driver>,
    plain: FreeEvents,
    timing: FreeEvents,
    closed: AtomicBool,
    /// The error of the first ordering that could not be made. Like a sticky error of a CUDA
    /// context, every later call returns it. A record returns it too: an event recorded now would
    /// not be behind all uses of the memory that the ordering was for.
    sticky_error: OnceLock<DriverError>,
    /// The observer of records and waits.
    observed: Arc<Observed>,
    /// The threads that wait for events on behalf of tasks.
    completion: Arc<Completion>,
}

/// Events without a lease. The lock is held only while one is moved: no call of the driver and no
/// destructor runs under it.
///
/// A stream that hands over in a loop takes the event that it returned last. So this event has a
/// place of its own, which costs one atomic access where the lock costs two.
///
/// # Invariants
/// FREE-EVENTS-1. `last` is null, or came from [`Box::into_raw`], and nothing else has the box.
#[derive(Debug, Default)]
struct FreeEvents {
    last: AtomicPtr<LiveEvent>,
    others: Mutex<Events>,
}

type Events = Vec<Box<LiveEvent>>;

impl FreeEvents {
    /// The number of events that are kept for reuse. Further events are destroyed when they return.
    const KEPT: usize = 1024;

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Events> {
        // The list is only pushed to, popped from and taken, so a panic leaves it whole.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the event that returned last, if it has its own place.
    #[inline]
    fn pop_last(&self) -> Option<Box<LiveEvent>> {
        if self.last.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let last = NonNull::new(self.last.swap(ptr::null_mut(), Ordering::Acquire))?;
        // SAFETY: FREE-EVENTS-1: the exchange has taken the box out of the list.
        Some(unsafe { Box::from_raw(last.as_ptr()) })
    }

    #[inline]
    fn pop(&self) -> Option<Box<LiveEvent>> {
        self.pop_last().or_else(|| self.lock().pop())
    }

    /// Puts the event into the place of the last one, in its own pool, or gives it back if the
    /// place is taken.
    #[inline]
    fn push_last(event: Box<LiveEvent>) -> Result<(), Box<LiveEvent>> {
        let event = Box::into_raw(event);
        // SAFETY: the box is this function's until the exchange succeeds.
        let live = unsafe { &*event };
        let last = &live.pool.free(live.timing).last;
        // This makes FREE-EVENTS-1 true. Once the exchange has succeeded, another thread may
        // destroy the event, and the pool with it: neither is used after it.
        match last.compare_exchange(ptr::null_mut(), event, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: the exchange failed, so the box is still this function's.
            Err(_) => Err(unsafe { Box::from_raw(event) }),
        }
    }

    /// Keeps the event, or gives it back if enough are kept.
    #[inline]
    fn push(&self, event: Box<LiveEvent>) -> Result<(), Box<LiveEvent>> {
        let mut events = self.lock();
        if events.len() >= Self::KEPT {
            return Err(event);
        }
        events.push(event);
        Ok(())
    }

    fn take(&self) -> Events {
        let mut events = mem::take(&mut *self.lock());
        events.extend(self.pop_last());
        events
    }
}

/// A live event. Nothing else has its handle.
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
        // SAFETY: the event is live, and nothing else has its handle. An error leaks the event.
        let _ = unsafe { self.pool.driver.destroy_event(self.raw) };
    }
}

impl EventPool {
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        observed: Arc<Observed>,
        completion: Arc<Completion>,
    ) -> Arc<Self> {
        Arc::new(Self {
            driver,
            plain: FreeEvents::default(),
            timing: FreeEvents::default(),
            closed: AtomicBool::new(false),
            sticky_error: OnceLock::new(),
            observed,
            completion,
        })
    }

    #[inline]
    fn free(&self, timing: bool) -> &FreeEvents {
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

    /// The error of the first ordering of this device that could not be made.
    #[inline]
    pub(crate) fn sticky_error(&self) -> Option<&DriverError> {
        self.sticky_error.get()
    }

    /// Refuses all later records. The first error stays.
    pub(crate) fn set_sticky_error(&self, error: DriverError) {
        let _ = self.sticky_error.set(error);
    }

    /// Leases an event that records all the work of `at` so far. No event is leased without a
    /// record (obligation 2), and none after an ordering could not be made.
    #[inline]
    pub(crate) fn record(self: &Arc<Self>, at: StreamRef, timing: bool) -> DriverResult<EventLease> {
        if let Some(error) = self.sticky_error() {
            return Err(error.clone());
        }
        let event = match self.free(timing).pop() {
            Some(event) => event,
            None => self.create(timing)?,
        };
        // The drop returns the event to the pool, also if the record fails.
        let event = PooledEvent::new(event);
        // SAFETY: EVENT-1: the event is live. The device core keeps the stream.
        unsafe { self.driver.record_event(event.raw, at.raw) }?;
        // SAFETY: EVENT-LEASE-1: the call above recorded the event on the stream `at`.
        let lease = unsafe { EventLease::new(event, at.id) };
        // Timing events belong to a recording or a measurement: the observer is not told of them.
        if !timing {
            self.observed.event_recorded(at, lease.event().raw);
        }
        Ok(lease)
    }

    /// Destroys the events in the pool now, and the leased events when they return. An event that
    /// returns on another thread at this very moment may be leaked.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.drain();
    }

    /// Destroys the events in the pool.
    fn drain(&self) {
        for events in [&self.plain, &self.timing] {
            drop(events.take());
        }
    }
}

mod def {
    use std::mem::ManuallyDrop;
    use std::ops::Deref;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::{FreeEvents, LiveEvent, StreamId};

    /// An event outside its pool. The drop returns it.
    ///
    /// # Invariants
    /// EVENT-1. The event is live, and nothing else has it: the box owns the event, and destroys it
    /// when dropped.
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
            // SAFETY: the event is taken once: nothing uses the field after this drop.
            let event = unsafe { ManuallyDrop::take(&mut self.0) };
            if event.pool.closed.load(Ordering::Relaxed) {
                return;
            }
            if let Err(event) = FreeEvents::push_last(event) {
                // This reference lives across the push: once another thread has the event, the
                // event no longer keeps the pool alive for this thread.
                let pool = Arc::clone(&event.pool);
                // A full pool gives the event back, and the drop destroys it.
                drop(pool.free(event.timing).push(event));
            }
        }
    }

    /// The only right to wait for one record of an event. The drop returns the event to its pool
    /// (obligation 5).
    ///
    /// # Invariants
    /// EVENT-LEASE-1. The event's last record was on the stream `origin`. That stays true, because
    /// nothing else has the event (EVENT-1).
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

    /// The name by which other devices refer to the event's device.
    pub(crate) fn peer(&self) -> RawPeer {
        self.driver().peer()
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
            // Destroys the events that returned while the pool was being closed.
            if pool.closed.load(Ordering::SeqCst) {
                pool.drain();
            }
        };
        self.completion().watch(question, origin, done, drain)
    }

    /// Makes `at` wait for the event on the GPU. Does nothing if `at` recorded the event: a stream
    /// runs in order.
    #[inline]
    pub(crate) fn wait_on(&self, at: StreamRef) -> DriverResult<()> {
        if self.origin() == at.id {
            return Ok(());
        }
        // SAFETY: EVENT-1: the event is live. The device core keeps the stream.
        unsafe { self.driver().wait_event(at.raw, self.event().raw) }?;
        self.pool().observed.stream_waits(at, self.event().raw);
        Ok(())
    }

    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        // SAFETY: EVENT-1.
        let wait = || unsafe { self.driver().synchronize_event(self.event().raw) };
        // The observer is not told of timing events, which belong to a recording or a measurement.
        if self.event().timing {
            return wait();
        }
        self.pool().observed.host_waits(self.origin(), wait)
    }

    pub(crate) fn query(&self) -> DriverResult<bool> {
        // SAFETY: EVENT-1.
        unsafe { self.driver().query_event(self.event().raw) }
    }

    /// The time from `earlier` to this event, in milliseconds.
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
