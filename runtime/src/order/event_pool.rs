//! [`EventPool`]: a device's events, and their records. A record gives an
//! [`EventLease`](super::live_event), the right to wait for it; a lease waits here.
//!
//! A stream with a clock keeps events of its own ([`Ring`](super::ring)), and shares a record that
//! covers all its work. Other records take an event of the pool: records of captures, of adopted
//! streams, of times, and of a stream whose ring another thread holds, or whose events are leased.
//!
//! A record, wait or query that is left out asks [`host_function::check`], as each driver does
//! first in each call: inside a host function the call is refused, whether the driver would be
//! called or not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{fmt, io, mem, ptr};

use crate::order::clocks::{Clock, Clocks, Known, Record};
use crate::order::completion::{Completion, Done, Question};
use crate::order::event_figures::{EventCounts, EventFigures};
use crate::order::live_event::{LiveEvent, PooledEvent, Resident};
use crate::order::observer::Observed;
use crate::order::ring::Ring;
use crate::order::stream_ref::{StreamId, StreamRef};
use crate::order::try_lock::Held;
use cuda_rt_driver::host_function;
use cuda_rt_driver::{Driver, DriverError, DriverResult, Hint, LeftOut};
use cuda_rt_driver::{RawEvent, RawPeer, RawStream, Tools};

pub(crate) use crate::order::live_event::EventLease;

/// The events of one device.
///
/// The pool records events and leases them. A lease outlives the device's handles, so the pool
/// holds the parts of the device that a lease needs: the driver, the clocks, the observer, and the
/// threads that wait.
///
/// An event includes a reference to the pool, which keeps the pool alive as long as the event has a
/// lease. [`close`](Self::close) breaks the cycle of references.
#[derive(Debug)]
pub(crate) struct EventPool {
    driver: Arc<dyn Driver>,
    free: Mutex<FreeEvents>,
    closed: AtomicBool,
    /// The clocks of the device's streams. `None` in a capture: its records are nodes of a graph.
    clocks: Option<Clocks>,
    /// The error of the first ordering that could not be made. Like a sticky error of a CUDA
    /// context, every later call returns it. A record returns it too: an event recorded now would
    /// not be behind all uses of the memory that the ordering was for.
    sticky_error: OnceLock<DriverError>,
    /// For figures.
    pub(super) counts: EventCounts,
    /// The tools of a simulated device, which is told of the waits that are left out.
    simulated: Option<Arc<dyn Tools>>,
    /// The observer of records and waits.
    observed: Arc<Observed>,
    /// The threads that wait for events on behalf of tasks.
    completion: Arc<Completion>,
}

/// The pool's own events without a lease, and the streams whose rings have further events.
#[derive(Debug, Default)]
pub(super) struct FreeEvents {
    plain: Events,
    timing: Events,
    streams: Vec<&'static Clock>,
    /// Whether redundant records and waits are made all the same.
    keeps_redundant: bool,
}

/// An event moves into a lease by its pointer.
type Events = Vec<Box<LiveEvent>>;

impl FreeEvents {
    /// The number of events that are kept for reuse. Further events are destroyed when they return.
    const KEPT: usize = 1024;

    fn of(&mut self, timing: bool) -> &mut Events {
        if timing { &mut self.timing } else { &mut self.plain }
    }
}

impl EventPool {
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        observed: Arc<Observed>,
        completion: Arc<Completion>,
        clocks: Option<Clocks>,
        simulated: Option<Arc<dyn Tools>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            driver,
            free: Mutex::default(),
            closed: AtomicBool::new(false),
            clocks,
            simulated,
            sticky_error: OnceLock::new(),
            counts: EventCounts::default(),
            observed,
            completion,
        })
    }

    #[inline]
    pub(super) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    pub(crate) fn clocks(&self) -> Option<&Clocks> {
        self.clocks.as_ref()
    }

    /// The pool's own events. The lock is held only while one is moved, or a lease ends after the
    /// pool was closed: no call of the driver and no destructor runs under it.
    pub(super) fn lock(&self) -> MutexGuard<'_, FreeEvents> {
        // The lists are only pushed to, popped from and taken, so a panic leaves them whole.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new stream of this pool's device.
    pub(crate) fn stream(&self, raw: RawStream) -> StreamRef {
        let Some(clock) = self.clocks.as_ref().and_then(|clocks| clocks.stream(raw)) else {
            return StreamRef::without_clock(raw);
        };
        let mut free = self.lock();
        clock.keep_redundant(free.keeps_redundant);
        free.streams.push(clock);
        StreamRef::of(clock)
    }

    /// Whether the device's streams make redundant records and waits all the same. Work is counted
    /// in any case, so the answer may change at any time.
    pub(crate) fn keep_redundant(&self, keep: bool) {
        let mut free = self.lock();
        free.keeps_redundant = keep;
        free.streams.iter().for_each(|clock| clock.keep_redundant(keep));
    }

    #[cold]
    fn create(
        self: &Arc<Self>,
        timing: bool,
        stream: Option<&'static Clock>,
    ) -> DriverResult<Box<LiveEvent>> {
        let raw = self.driver.create_event(timing)?;
        self.counts.created();
        Ok(LiveEvent::new(raw, timing, Arc::clone(self), stream))
    }

    /// The error of the first ordering of this device that could not be made.
    #[inline]
    pub(crate) fn sticky_error(&self) -> Option<&DriverError> {
        self.sticky_error.get()
    }

    /// The figures of the device's events. Calls nothing of the driver.
    pub(crate) fn figures(&self) -> EventFigures {
        let (pooled, streams) = {
            let free = self.lock();
            (free.plain.len() + free.timing.len(), free.streams.clone())
        };
        self.counts.figures(pooled, &streams)
    }

    /// Refuses all later records. The first error stays.
    pub(crate) fn set_sticky_error(&self, error: DriverError) {
        let _ = self.sticky_error.set(error);
    }

    /// Whether no earlier call was refused because of the sticky error.
    pub(crate) fn is_first_refusal(&self) -> bool {
        self.counts.is_first_refusal()
    }

    /// Leases an event that records all the work of `at` so far. No event is leased without a
    /// record (obligation 2), and none after an ordering could not be made. The last record serves
    /// again if no work was enqueued since.
    #[inline]
    pub(crate) fn record(self: &Arc<Self>, at: StreamRef, timing: bool) -> DriverResult<EventLease> {
        self.record_on(&at, timing)
    }

    /// As [`record`](Self::record). The stream is borrowed: the usual record, on a stream with a
    /// clock, then reads one word of it.
    #[inline]
    pub(crate) fn record_on(self: &Arc<Self>, at: &StreamRef, timing: bool) -> DriverResult<EventLease> {
        if let Some(error) = self.sticky_error() {
            return refused(error);
        }
        match at.clock() {
            Some(clock) if !timing => self.record_in_ring(clock),
            _ => self.record_elsewhere(*at, timing),
        }
    }

    /// Leases an event of the stream's ring, or of the pool if another thread holds the ring, or
    /// the ring has no free event.
    fn record_in_ring(self: &Arc<Self>, clock: &'static Clock) -> DriverResult<EventLease> {
        let Some(mut ring) = clock.ring().try_lock() else {
            return self.record_elsewhere(StreamRef::of(clock), false);
        };
        // SEEN-4.
        if !clock.is_counted() {
            return self.record_unnumbered(clock, ring);
        }
        if let Some(lease) = ring.again(clock) {
            host_function::check("cuEventRecord")?;
            return Ok(lease);
        }
        let own = &mut *ring;
        // From here on the last record is not shared, unless this one is made.
        let number = own.next_number();
        let event = match own.free_event() {
            Some(event) => event,
            None => match own.turn(|| self.create_resident(clock))? {
                Some(event) => event,
                None => {
                    drop(ring);
                    return self.record_pooled(StreamRef::of(clock), false);
                }
            },
        };
        event.describe(clock, number);
        clock.recording(number);
        let raw = event.raw();
        // SAFETY: EVENT-1: the event is live. The device core keeps the stream.
        StreamRef::of(clock).ask(|at| unsafe { self.driver.record_event(raw, at) })?;
        // SAFETY: EVENT-LEASE-1: the call above recorded the event on the stream of the ring.
        let lease = unsafe { event.first_lease() };
        clock.recorded(number);
        drop(ring);
        if self.observed.is_on() {
            self.tell_record(clock, raw);
        }
        Ok(lease)
    }

    /// Leases an event of the stream's ring. Its record has no number (SEEN-4).
    #[cold]
    fn record_unnumbered(
        self: &Arc<Self>,
        clock: &'static Clock,
        mut ring: Held<'_, Ring>,
    ) -> DriverResult<EventLease> {
        let (at, own) = (StreamRef::of(clock), &mut *ring);
        // No record has this number, so the last record is not shared any more.
        own.next_number();
        let event = match own.free_event() {
            Some(event) => event,
            None => match own.turn(|| self.create_resident(clock))? {
                Some(event) => event,
                None => {
                    drop(ring);
                    return self.record_pooled(at, false);
                }
            },
        };
        event.describe_unnumbered();
        let raw = event.raw();
        // SAFETY: EVENT-1: the event is live. The device core keeps the stream.
        at.ask(|at| unsafe { self.driver.record_event(raw, at) })?;
        // SAFETY: EVENT-LEASE-1: the call above recorded the event on the stream of the ring.
        let lease = unsafe { event.first_lease() };
        drop(ring);
        if self.observed.is_on() {
            self.tell_record(clock, raw);
        }
        Ok(lease)
    }

    /// Tells the observer of a record of the event `raw`.
    #[cold]
    fn tell_record(&self, clock: &'static Clock, raw: RawEvent) {
        self.observed.event_recorded(StreamRef::of(clock), raw);
    }

    #[cold]
    fn create_resident(self: &Arc<Self>, clock: &'static Clock) -> DriverResult<Resident> {
        // RING-2.
        clock.take_place();
        Ok(Resident::new(self.create(false, Some(clock))?))
    }

    /// As [`record_pooled`](Self::record_pooled), where no ring has counted the record.
    #[inline(never)]
    fn record_elsewhere(self: &Arc<Self>, at: StreamRef, timing: bool) -> DriverResult<EventLease> {
        self.counts.recorded_elsewhere();
        self.record_pooled(at, timing)
    }

    /// Leases an event of the pool, which no clock counts.
    #[inline(never)]
    fn record_pooled(self: &Arc<Self>, at: StreamRef, timing: bool) -> DriverResult<EventLease> {
        let free = self.lock().of(timing).pop();
        let event = match free {
            Some(event) => event,
            None => self.create(timing, None)?,
        };
        // The drop returns the event to the pool, also if the record fails.
        let event = PooledEvent::new(event);
        event.describe(at);
        let raw = event.raw;
        // SAFETY: the event is live, because it is not dropped. The device core keeps the stream.
        let record = |at| unsafe { self.driver.record_event(raw, at) };
        match timing {
            // What waits for a later record begins after the time that was taken.
            true => at.enqueue(record),
            false => at.ask(record),
        }?;
        // SAFETY: EVENT-LEASE-1: the call above recorded the event on the stream `at`.
        let lease = unsafe { event.lease() };
        // Timing events belong to a recording or a measurement: the observer is not told of them.
        if !timing {
            self.observed.event_recorded(at, raw);
        }
        Ok(lease)
    }

    /// Takes back an event of the pool. A closed or full pool destroys it.
    pub(super) fn give_back(&self, event: Box<LiveEvent>) {
        let mut free = self.lock();
        let free_events = free.of(event.timing);
        let kept = free_events.len() < FreeEvents::KEPT && !self.is_closed();
        let destroyed = match kept {
            true => {
                free_events.push(event);
                None
            }
            false => Some(event),
        };
        drop(free);
        drop(destroyed);
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Destroys the events in the pool now, and the leased events when they return. An event whose
    /// lease ends on another thread at this very moment may be leaked.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.drain();
        let streams = mem::take(&mut self.lock().streams);
        for clock in streams {
            // Nothing records any more. If the record of a lost thread holds the ring, its events
            // are leaked.
            let taken = clock.ring().try_lock().map(|mut ring| ring.take());
            taken.into_iter().flatten().for_each(Resident::leave);
        }
    }

    /// Destroys the events in the pool.
    fn drain(&self) {
        for timing in [false, true] {
            let events = mem::take(self.lock().of(timing));
            drop(events);
        }
    }
}

#[cold]
fn refused<T>(error: &DriverError) -> DriverResult<T> {
    Err(error.clone())
}

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

    /// The stream of the record.
    #[inline]
    pub(crate) fn origin(&self) -> StreamId {
        self.event().origin()
    }

    /// Whether a record of `at` that is made now would cover nothing more than this record does, as
    /// far as the caller knows (SEEN-3). Always false if no clock counts the record.
    pub(crate) fn is_end_of(&self, at: StreamRef) -> bool {
        match (at.clock(), self.event().record()) {
            (Some(clock), Some(record)) => {
                ptr::eq(clock, record.stream) && clock.is_counted() && clock.ends_with(record.number)
            }
            _ => false,
        }
    }

    /// Makes `at` wait for the event on the GPU. Does nothing if `at` is already ordered after the
    /// event: because it recorded the event, because it waits for work behind the event, or because
    /// the host has seen the event over.
    #[inline]
    pub(crate) fn wait_on(&self, at: StreamRef) -> DriverResult<()> {
        self.wait_on_borrowed(&at)
    }

    /// As [`wait_on`](Self::wait_on). The stream is borrowed, as in
    /// [`record_on`](EventPool::record_on).
    #[inline]
    pub(super) fn wait_on_borrowed(&self, at: &StreamRef) -> DriverResult<()> {
        let event = self.event();
        match at.clock() {
            Some(clock) => event.wait_on_clocked(clock),
            None => event.wait_on_other(*at),
        }
    }
}

impl LiveEvent {
    /// Makes the stream of `clock` wait for the event, unless it is ordered after the event.
    fn wait_on_clocked(&self, clock: &'static Clock) -> DriverResult<()> {
        let Some(record) = self.record() else {
            return self.wait_on_other(StreamRef::of(clock));
        };
        if ptr::eq(clock, record.stream) {
            return Ok(());
        }
        if !clock.is_counted() || !clock.has_table_of(record.stream) {
            return self.wait_on_other(StreamRef::of(clock));
        }
        match clock.knows(record) {
            Known::Covered => return host_function::check("cuStreamWaitEvent"),
            Known::Over => return self.leave_wait_out(StreamRef::of(clock)),
            Known::Nothing => {}
        }
        self.make_wait(StreamRef::of(clock))?;
        // SEEN-2: the call has succeeded.
        clock.waited(record.seen);
        if self.pool.observed.is_on() {
            self.tell_wait(StreamRef::of(clock));
        }
        Ok(())
    }

    /// Makes `at` wait for the event, unless it recorded the event. No clock is told.
    #[cold]
    fn wait_on_other(&self, at: StreamRef) -> DriverResult<()> {
        if self.origin() == at.id() {
            return Ok(());
        }
        self.make_wait(at)?;
        if self.pool.observed.is_on() {
            self.tell_wait(at);
        }
        Ok(())
    }

    /// Leaves a wait of `at` out, because the host has seen the event over.
    #[cold]
    fn leave_wait_out(&self, at: StreamRef) -> DriverResult<()> {
        host_function::check("cuStreamWaitEvent")?;
        self.left_out(LeftOut::StreamWait(at.handle()), Some(at));
        Ok(())
    }

    /// Makes the call. A wait is work too: what is recorded later on `at` is behind the event.
    #[inline(always)]
    fn make_wait(&self, at: StreamRef) -> DriverResult<()> {
        // SAFETY: EVENT-1: the event is live. The device core keeps the stream.
        at.enqueue(|at| unsafe { self.pool.driver.wait_event(at, self.raw) })
    }

    /// Tells the observer of a wait of `at`.
    #[cold]
    fn tell_wait(&self, at: StreamRef) {
        self.pool.observed.stream_waits(at, self.raw);
    }

    /// Tells a simulated device, and its recording, of a call that is left out because the host has
    /// seen the event over. Which thread has seen it must not show in the modelled times.
    #[cold]
    fn left_out(&self, call: LeftOut, at: Option<StreamRef>) {
        let pool = &self.pool;
        let Some(simulated) = &pool.simulated else {
            return;
        };
        let (event, observed) = (self.raw, &pool.observed);
        let tell = || simulated.hint(Hint::LeftOut { event, call });
        match (call, at) {
            (LeftOut::HostWait, _) => {
                let told = observed.tell_host_wait(self.origin(), || {
                    tell();
                    Ok(())
                });
                debug_assert!(told.is_ok(), "a hint cannot fail");
            }
            (_, Some(at)) => {
                tell();
                observed.stream_waits(at, event);
            }
            (_, None) => tell(),
        }
    }
}

impl EventLease {
    /// The record, if the host remembers its end.
    #[inline]
    fn remembered(&self) -> Option<Record<'_>> {
        let record = self.event().record();
        record.filter(|record| record.stream.is_counted())
    }

    /// Blocks the host until the record is over. Calls nothing if the host has seen it over.
    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        let record = self.remembered();
        if record.is_some_and(Record::is_over) {
            host_function::check("cuEventSynchronize")?;
            self.event().left_out(LeftOut::HostWait, None);
            return Ok(());
        }
        // SAFETY: EVENT-1.
        let wait = || unsafe { self.driver().synchronize_event(self.event().raw) };
        // The observer is not told of timing events, which belong to a recording or a measurement.
        if self.event().timing {
            return self.pool().observed.host_waits_unobserved(self.origin(), wait);
        }
        self.pool().observed.host_waits(self.origin(), wait)?;
        if let Some(record) = record {
            // TABLE-2: the wait has succeeded.
            record.seen_over();
        }
        Ok(())
    }

    /// Whether the record is over. Calls nothing if the host has seen it over.
    pub(crate) fn query(&self) -> DriverResult<bool> {
        let record = self.remembered();
        if record.is_some_and(Record::is_over) {
            host_function::check("cuEventQuery")?;
            self.event().left_out(LeftOut::Query, None);
            return Ok(true);
        }
        // SAFETY: EVENT-1.
        let over = unsafe { self.driver().query_event(self.event().raw) }?;
        if let Some(record) = record.filter(|_| over) {
            // TABLE-2: the answer was yes.
            record.seen_over();
        }
        Ok(over)
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
