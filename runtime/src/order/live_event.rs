//! [`LiveEvent`]: a CUDA event, and its leases. [`EventLease`] is the right to wait for one record.
//!
//! ```text
//!   the ring of a stream ── Resident::lease ───▶ EventLease, one of several ── drop ──▶ a flag
//!   the pool of a device ── PooledEvent::lease ▶ EventLease, the only one ──── drop ──▶ the pool
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::order::clocks::{Clock, Record, Seen, UNNUMBERED};
use crate::order::event_pool::EventPool;
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::RawEvent;

/// A live event, and what its last record covers. Nothing else has its handle.
///
/// # Invariants
/// EVENT-2. What is said of the record, `origin`, `number` and `seen`, changes only while the event
/// has no lease. So a lease finds what was said when its record was made. An entry of `seen` may be
/// of an earlier record of the event: that record is of the same stream, so the entry is true of
/// this one.
/// EVENT-3. The event is aligned to [`LiveEvent::ALIGN`], and starts with `leased`. So the address
/// of a flag gives the address of the event.
#[repr(C, align(32))]
pub(super) struct LiveEvent {
    /// Which leases live. Each lease has a flag of its own, which it clears by a plain store.
    leased: [AtomicBool; LiveEvent::FLAGS],
    /// The highest flag that a lease of the record has had, beside the first one.
    further: AtomicUsize,
    /// Whether a lease ends with more than its flag: the event is of the pool, or its ring is gone.
    /// In the latter case the last lease destroys the event.
    left: AtomicBool,
    pub(super) raw: RawEvent,
    /// The stream whose ring has the event.
    stream: Option<&'static Clock>,
    /// The record's number, or [`UNNUMBERED`].
    number: AtomicU64,
    /// What `stream` had seen before the record, and the record itself. Only numbered records write
    /// it.
    seen: Seen,
    pub(super) pool: Arc<EventPool>,
    pub(super) timing: bool,
    /// The stream of the record, of an event of the pool.
    origin: AtomicU64,
}

const _: () = assert!(align_of::<LiveEvent>() == LiveEvent::ALIGN);
const _: () = assert!(std::mem::offset_of!(LiveEvent, leased) == 0);

impl fmt::Debug for LiveEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl Drop for LiveEvent {
    fn drop(&mut self) {
        // SAFETY: the event is live, and nothing else has its handle. An error leaks the event.
        let _ = unsafe { self.pool.driver().destroy_event(self.raw) };
        self.pool.counts.destroyed();
    }
}

impl LiveEvent {
    /// A power of two, above every flag.
    const ALIGN: usize = 32;

    /// The most leases of one record of a ring. A further lease takes a further record.
    const LEASES: usize = 16;

    /// The flags of those leases, and the flag of the only lease of an event of the pool.
    const FLAGS: usize = Self::LEASES + 1;

    pub(super) fn new(
        raw: RawEvent,
        timing: bool,
        pool: Arc<EventPool>,
        stream: Option<&'static Clock>,
    ) -> Box<Self> {
        Box::new(Self {
            leased: [const { AtomicBool::new(false) }; Self::FLAGS],
            further: AtomicUsize::new(0),
            left: AtomicBool::new(stream.is_none()),
            raw,
            stream,
            number: AtomicU64::new(UNNUMBERED),
            seen: Seen::default(),
            pool,
            timing,
            origin: AtomicU64::new(0),
        })
    }

    /// Whether every lease has ended. The holder of the ring asks, or the lock of the closed pool
    /// is held.
    #[inline]
    fn is_free(&self) -> bool {
        // ORDER: the acquire puts all that a lease did before the next record.
        !self.leased[0].load(Ordering::Acquire)
            && (self.further.load(Ordering::Relaxed) == 0 || self.has_no_further_lease())
    }

    #[cold]
    fn has_no_further_lease(&self) -> bool {
        let further = self.further.load(Ordering::Relaxed);
        let mut leased = self.leased.iter().skip(1).take(further);
        // ORDER: as in `is_free`.
        let free = leased.all(|leased| !leased.load(Ordering::Acquire));
        if free {
            self.further.store(0, Ordering::Relaxed);
        }
        free
    }

    /// The stream of the record.
    #[inline]
    pub(super) fn origin(&self) -> StreamId {
        match self.stream {
            Some(stream) => StreamRef::of(stream).id(),
            None => StreamId::of_bits(self.origin.load(Ordering::Relaxed)),
        }
    }

    /// The record, if its stream has a clock.
    #[inline]
    pub(super) fn record(&self) -> Option<Record<'_>> {
        Some(Record {
            stream: self.stream?,
            number: self.number.load(Ordering::Relaxed),
            seen: &self.seen,
        })
    }
}

mod def {
    use std::mem::ManuallyDrop;
    use std::ops::Deref;
    use std::ptr::{self, NonNull};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{Clock, LiveEvent, RawEvent, StreamRef};

    /// An event of the pool, outside it. The drop returns it.
    pub(in crate::order) struct PooledEvent(ManuallyDrop<Box<LiveEvent>>);

    impl PooledEvent {
        pub(in crate::order) fn new(event: Box<LiveEvent>) -> Self {
            Self(ManuallyDrop::new(event))
        }

        /// Says that the next record is made on `at`. No clock counts it.
        pub(in crate::order) fn describe(&self, at: StreamRef) {
            // ORDER: the lease carries the store to other threads.
            self.0.origin.store(at.id().bits(), Ordering::Relaxed);
        }

        /// The only lease of the record.
        ///
        /// # Safety
        /// EVENT-LEASE-1 holds.
        pub(in crate::order) unsafe fn lease(self) -> EventLease {
            let mut event = ManuallyDrop::new(self);
            // SAFETY: the event is taken once: `self` is neither used nor dropped after this.
            let event = unsafe { ManuallyDrop::take(&mut event.0) };
            EventLease::new(NonNull::from(Box::leak(event)), EventLease::ONLY)
        }
    }

    impl Deref for PooledEvent {
        type Target = LiveEvent;

        fn deref(&self) -> &LiveEvent {
            &self.0
        }
    }

    impl Drop for PooledEvent {
        fn drop(&mut self) {
            // SAFETY: the event is taken once: nothing uses the field after this drop.
            let event = unsafe { ManuallyDrop::take(&mut self.0) };
            // This reference lives across the return: once another thread has the event, the event
            // no longer keeps the pool alive for this thread.
            let pool = Arc::clone(&event.pool);
            pool.give_back(event);
        }
    }

    /// An event of a stream's ring. Dropping it leaks the event.
    ///
    /// # Invariants
    /// EVENT-1. The event is live as long as the ring has its `Resident`, or a lease has not ended.
    #[derive(Debug)]
    pub(in crate::order) struct Resident(NonNull<LiveEvent>);

    // SAFETY: a `LiveEvent` is `Send` and `Sync`, and is dropped by whoever takes its box.
    unsafe impl Send for Resident {}

    impl Resident {
        pub(in crate::order) fn new(event: Box<LiveEvent>) -> Self {
            Self(NonNull::from(Box::leak(event)))
        }

        #[inline]
        fn event(&self) -> &LiveEvent {
            // SAFETY: EVENT-1: `self` is the event's `Resident`.
            unsafe { self.0.as_ref() }
        }

        #[inline]
        pub(in crate::order) fn raw(&self) -> RawEvent {
            self.event().raw
        }

        /// Whether every lease of the last record has ended. Only the holder of the ring asks, and
        /// only the holder makes leases.
        #[inline]
        pub(in crate::order) fn is_free(&self) -> bool {
            self.event().is_free()
        }

        /// Says that the next record has no number. The caller makes the record next.
        ///
        /// # Panics
        /// In debug builds, if the event has a lease.
        pub(in crate::order) fn describe_unnumbered(&self) {
            debug_assert!(self.is_free(), "EVENT-2");
            // ORDER: as in `describe`.
            self.event().number.store(super::UNNUMBERED, Ordering::Relaxed);
        }

        /// Says what the next record covers, on the stream with the clock `clock`. The caller makes
        /// the record next.
        ///
        /// # Panics
        /// In debug builds, if the event has a lease, or is of another stream's ring.
        #[inline]
        pub(in crate::order) fn describe(&self, clock: &'static Clock, number: u64) {
            let event = self.event();
            debug_assert!(self.is_free(), "EVENT-2");
            debug_assert!(event.stream.is_some_and(|own| ptr::eq(own, clock)), "EVENT-2");
            // ORDER: leases carry these stores to other threads.
            event.number.store(number, Ordering::Relaxed);
            clock.snapshot(number, &event.seen);
        }

        /// The first lease of the record that was just made.
        ///
        /// # Safety
        /// EVENT-LEASE-1 holds, and `describe` was called before the record.
        #[inline]
        pub(in crate::order) unsafe fn first_lease(&self) -> EventLease {
            // ORDER: as in `lease`.
            self.event().leased[0].store(true, Ordering::Relaxed);
            EventLease::new(self.0, 0)
        }

        /// A lease of the last record, if it can have one more.
        ///
        /// # Safety
        /// EVENT-LEASE-1 holds.
        #[inline]
        pub(in crate::order) unsafe fn lease(&self) -> Option<EventLease> {
            let event = self.event();
            // ORDER: the holder of the ring alone writes these; the lease carries them on.
            let flag = event.further.load(Ordering::Relaxed) + 1;
            if flag >= LiveEvent::LEASES {
                return None;
            }
            event.leased[flag].store(true, Ordering::Relaxed);
            event.further.store(flag, Ordering::Relaxed);
            Some(EventLease::new(self.0, flag))
        }

        /// Destroys the event, now or with its last lease, for a pool that is closed. From here on
        /// leases end under the pool's lock. A lease that ends at this very moment may leak the
        /// event.
        pub(in crate::order) fn leave(self) {
            let pool = Arc::clone(&self.event().pool);
            let free = {
                let _ended = pool.lock();
                let event = self.event();
                event.left.store(true, Ordering::Relaxed);
                event.is_free()
            };
            if free {
                // SAFETY: EVENT-1: `self` is the last to have the event. No lease is left, and a
                // lease that ended before `left` was set has not taken the box.
                drop(unsafe { Box::from_raw(self.0.as_ptr()) });
            }
        }
    }

    /// The right to wait for one record of an event (obligation 5).
    ///
    /// # Invariants
    /// EVENT-LEASE-1. The event's last record was made on the stream `origin` of the event, after
    /// all work that the lease must cover. That stays true as long as the lease lives: nothing
    /// records an event that has a lease.
    /// EVENT-LEASE-2. The pointer is to the lease's flag in the event, and is valid for all of the
    /// event. The flag [`ONLY`](Self::ONLY) is of an event of the pool, whose box the lease owns.
    pub(crate) struct EventLease(NonNull<AtomicBool>);

    // SAFETY: a `LiveEvent` is `Send` and `Sync`.
    unsafe impl Send for EventLease {}
    // SAFETY: as above; a shared lease gives shared references only.
    unsafe impl Sync for EventLease {}

    impl EventLease {
        /// The flag of the only lease of an event of the pool.
        const ONLY: usize = LiveEvent::LEASES;

        #[inline]
        fn new(event: NonNull<LiveEvent>, flag: usize) -> Self {
            debug_assert!(flag < LiveEvent::FLAGS, "EVENT-LEASE-2");
            // In bounds (EVENT-3), so it neither wraps nor is null.
            Self(event.cast::<AtomicBool>().map_addr(|event| event | flag))
        }

        /// The event (EVENT-3).
        #[inline]
        fn pointer(&self) -> *mut LiveEvent {
            let flag = self.0.as_ptr();
            flag.map_addr(|flag| flag & !(LiveEvent::ALIGN - 1)).cast()
        }

        #[inline]
        pub(in crate::order) fn event(&self) -> &LiveEvent {
            // SAFETY: EVENT-1: this lease has not ended. EVENT-LEASE-2: the pointer is valid.
            unsafe { &*self.pointer() }
        }

        #[inline]
        fn flag(&self) -> &AtomicBool {
            // SAFETY: EVENT-1 and EVENT-LEASE-2.
            unsafe { self.0.as_ref() }
        }

        /// Ends a lease of an event whose pool is closed, or of the pool's own event.
        #[cold]
        fn end_slowly(&mut self) {
            if self.event().stream.is_none() {
                // SAFETY: EVENT-LEASE-2: the lease owns the box, which `PooledEvent::lease` leaked.
                let event = unsafe { Box::from_raw(self.pointer()) };
                drop(PooledEvent::new(event));
                return;
            }
            let pool = Arc::clone(&self.event().pool);
            let last = {
                let _ended = pool.lock();
                self.flag().store(false, Ordering::Release);
                // ORDER: the lock orders this with `Resident::leave`, which comes after the last
                // new lease: `is_free` looks at all of them.
                self.event().is_free()
            };
            if last {
                // SAFETY: EVENT-1: the ring has left the event, and no lease is left. Of the leases
                // that end after the ring has left it, the lock lets one see that it is the last.
                drop(unsafe { Box::from_raw(self.pointer()) });
            }
        }
    }

    impl Drop for EventLease {
        #[inline]
        fn drop(&mut self) {
            // ORDER: a lease that misses the end of the ring leaks the event, as `leave` says.
            if self.event().left.load(Ordering::Relaxed) {
                self.end_slowly();
            } else {
                // ORDER: a plain store, because nobody else writes this flag until it is read. It
                // is the last access: the event may be recorded again, or destroyed, at once.
                self.flag().store(false, Ordering::Release);
            }
        }
    }
}
pub(crate) use def::EventLease;
pub(super) use def::{PooledEvent, Resident};
