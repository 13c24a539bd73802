//! [`Observer`]: the listener to a device's calls, which is the recording of a timeline.
//!
//! Calls and events report to an [`Observed`], and the timeline puts an [`Observer`] into it.
//! Without an observer, a report costs one relaxed load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, ptr};

use crate::observability::SlowWait;
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::{DriverResult, Kind, RawEvent};

/// The description of an operation, for its span in a timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) label: &'static str,
    pub(crate) bytes: u64,
}

/// Is told of a device's operations, events and waits, in the order of the calls.
pub(crate) trait Observer: fmt::Debug + Send + Sync {
    /// Runs `work`, which enqueues `operation` on `at`, the stream of the tag `tag`.
    fn operation(
        &self,
        at: StreamRef,
        tag: &'static str,
        operation: Operation,
        work: &mut dyn FnMut() -> DriverResult<()>,
    ) -> DriverResult<()>;

    /// An event was recorded at the present end of a stream.
    fn event_recorded(&self, at: StreamRef, event: RawEvent);

    /// A stream waits for an event that another stream recorded.
    fn stream_waits(&self, at: StreamRef, event: RawEvent);

    /// Runs `wait`, which blocks the host on work of the stream.
    fn host_waits(&self, stream: StreamId, wait: &mut dyn FnMut() -> DriverResult<()>) -> DriverResult<()>;
}

/// A device's observer, if there is one.
#[derive(Default)]
pub(crate) struct Observed {
    on: AtomicBool,
    observer: Mutex<Option<Arc<dyn Observer>>>,
    /// Waits of the host that called the driver. A figure, which orders nothing.
    host_waits: AtomicU64,
    slow_wait: SlowWait,
}

// The observer is left out: it may hold the owner of this value.
impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("on", &self.is_on())
            .finish_non_exhaustive()
    }
}

impl Observed {
    /// Whether there is an observer. The load orders nothing: work that races with the start or the
    /// end of a recording may be in the recording or not.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Installs `observer`. False if another observer is installed.
    pub(crate) fn start(&self, observer: Arc<dyn Observer>) -> bool {
        let mut place = self.place();
        if place.is_some() {
            return false;
        }
        *place = Some(observer);
        self.on.store(true, Ordering::Relaxed);
        true
    }

    pub(crate) fn stop(&self) {
        self.on.store(false, Ordering::Relaxed);
        let before = self.place().take();
        // Outside the lock: this may drop the last reference to a recording.
        drop(before);
    }

    /// Whether `observer` is the installed observer.
    pub(crate) fn tells<T: Observer>(&self, observer: &Arc<T>) -> bool {
        self.observer()
            .is_some_and(|told| ptr::addr_eq(Arc::as_ptr(&told), Arc::as_ptr(observer)))
    }

    fn place(&self) -> MutexGuard<'_, Option<Arc<dyn Observer>>> {
        // The value is consistent after any panic: it changes by one store.
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.place().clone()
    }

    /// Runs `work`, which enqueues `operation` on `at`, the stream of the tag `tag`.
    #[inline]
    pub(crate) fn operation(
        &self,
        at: StreamRef,
        tag: &'static str,
        operation: Operation,
        work: impl FnOnce() -> DriverResult<()>,
    ) -> DriverResult<()> {
        if !self.is_on() {
            return work();
        }
        // Moved here only: without an observer `work` needs no memory.
        let mut work = Some(work);
        self.tell_around(&mut once(&mut work), move |observer, work| {
            observer.operation(at, tag, operation, work)
        })
    }

    /// An event was recorded at the present end of `at`.
    #[inline]
    pub(crate) fn event_recorded(&self, at: StreamRef, event: RawEvent) {
        if self.is_on() {
            self.tell(|observer| observer.event_recorded(at, event));
        }
    }

    /// The stream `at` waits for an event that another stream recorded.
    #[inline]
    pub(crate) fn stream_waits(&self, at: StreamRef, event: RawEvent) {
        if self.is_on() {
            self.tell(|observer| observer.stream_waits(at, event));
        }
    }

    /// The number of waits of the host that called the driver.
    pub(crate) fn count_host_waits(&self) -> u64 {
        self.host_waits.load(Ordering::Relaxed)
    }

    /// How long a wait of the host may last before a subscriber is warned.
    #[cfg(feature = "tracing")]
    pub(crate) fn slow_wait(&self) -> &SlowWait {
        &self.slow_wait
    }

    /// Runs `wait`, which blocks the host on work of the stream.
    pub(crate) fn host_waits(
        &self,
        stream: StreamId,
        wait: impl FnOnce() -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.host_waits_unobserved(stream, || self.tell_host_wait(stream, wait))
    }

    /// As [`host_waits`](Self::host_waits), but the observer is not told.
    pub(crate) fn host_waits_unobserved(
        &self,
        stream: StreamId,
        wait: impl FnOnce() -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.host_waits.fetch_add(1, Ordering::Relaxed);
        self.slow_wait.around(stream, wait)
    }

    /// Runs `wait`, a wait of the host that may have been left out, and tells the observer of it.
    #[inline]
    pub(crate) fn tell_host_wait(
        &self,
        stream: StreamId,
        wait: impl FnOnce() -> DriverResult<()>,
    ) -> DriverResult<()> {
        if !self.is_on() {
            return wait();
        }
        let mut wait = Some(wait);
        self.tell_around(&mut once(&mut wait), move |observer, wait| {
            observer.host_waits(stream, wait)
        })
    }

    #[cold]
    fn tell(&self, tell: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = self.observer() {
            tell(&*observer);
        }
    }

    /// Runs `work`, through the observer if there is one.
    #[cold]
    fn tell_around(
        &self,
        work: &mut dyn FnMut() -> DriverResult<()>,
        tell: impl FnOnce(&dyn Observer, &mut dyn FnMut() -> DriverResult<()>) -> DriverResult<()>,
    ) -> DriverResult<()> {
        match self.observer() {
            None => work(),
            Some(observer) => tell(&*observer, work),
        }
    }
}

/// Runs `work` when it is called, which happens once.
fn once(work: &mut Option<impl FnOnce() -> DriverResult<()>>) -> impl FnMut() -> DriverResult<()> {
    move || match work.take() {
        Some(work) => work(),
        None => unreachable!("an observer runs the work once"),
    }
}
