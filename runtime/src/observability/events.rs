//! What the library tells the subscribers of the crate `tracing`, and when it may.
//!
//! A subscriber is user code: it may panic, block, or call the library. Each call of a subscriber
//! goes through [`speak`], which keeps three rules:
//!
//! - **No unwinding.** A panic of the subscriber is caught, so no ordering is lost by it.
//! - **No re-entry.** What the library does for a subscriber is not told.
//! - **Nothing inside a callback.** A host function and the simulated device run user code where
//!   no other user code may run; what happens there is not told.
//!
//! And no subscriber runs under a lock. Whoever takes a lock under which something is told first
//! calls [`later`]: until the guard is dropped, events wait in a queue of the thread.
//!
//! ```text
//!   let _later = observability::later();    // dropped last: tells what has waited
//!   let streams = self.streams.lock();
//!   observability::stream_created(…);       // waits
//! ```

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::{Level, Span, event};

use crate::order::stream_ref::StreamId;
use cuda_rt_driver::{Backend, Driver, DriverError, Properties, call_lock, host_function};

const DEVICE: &str = "cuda_rt::device";
const STREAM: &str = "cuda_rt::stream";
const MEMORY: &str = "cuda_rt::memory";
const ERROR: &str = "cuda_rt::error";
const WAIT: &str = "cuda_rt::wait";

/// An event that is not told yet.
#[derive(Debug)]
enum Event {
    Opened {
        name: String,
        ordinal: usize,
        driver_version: u32,
        simulated: bool,
    },
    StreamCreated {
        ordinal: usize,
        stream: u64,
        priority: i32,
    },
    Grown {
        ordinal: usize,
        pool: &'static str,
        bytes_before: u64,
        bytes_after: u64,
    },
    Trimmed {
        ordinal: usize,
        pool: &'static str,
        bytes: u64,
    },
    Failed {
        during: &'static str,
        source: DriverError,
    },
    Refused {
        during: &'static str,
        cause: DriverError,
    },
    SlowWait {
        stream: u64,
        elapsed: Duration,
        threshold: Duration,
    },
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Event {
    /// Calls the subscribers.
    fn emit(self) {
        match self {
            Self::Opened {
                name,
                ordinal,
                driver_version,
                simulated,
            } => event!(
                target: DEVICE,
                Level::INFO,
                name = name.as_str(),
                ordinal,
                driver_version,
                simulated,
                "device opened"
            ),
            Self::StreamCreated {
                ordinal,
                stream,
                priority,
            } => event!(
                target: STREAM,
                Level::DEBUG,
                ordinal,
                stream,
                priority,
                "stream created"
            ),
            Self::Grown {
                ordinal,
                pool,
                bytes_before,
                bytes_after,
            } => event!(
                target: MEMORY,
                Level::DEBUG,
                ordinal,
                pool,
                bytes_before,
                bytes_after,
                "pool grown"
            ),
            Self::Trimmed { ordinal, pool, bytes } => event!(
                target: MEMORY,
                Level::DEBUG,
                ordinal,
                pool,
                bytes,
                "pool trimmed"
            ),
            Self::Failed { during, source } if source.is_sticky() => event!(
                target: ERROR,
                Level::ERROR,
                during,
                call = source.call(),
                code = source.code().0,
                code_name = source.code().name(),
                detail = source.detail(),
                "device lost"
            ),
            Self::Failed { during, source } => event!(
                target: ERROR,
                Level::WARN,
                during,
                call = source.call(),
                code = source.code().0,
                code_name = source.code().name(),
                detail = source.detail(),
                "call failed"
            ),
            Self::Refused { during, cause } => event!(
                target: ERROR,
                Level::ERROR,
                during,
                call = cause.call(),
                code = cause.code().0,
                code_name = cause.code().name(),
                detail = cause.detail(),
                "device takes no more work"
            ),
            Self::SlowWait {
                stream,
                elapsed,
                threshold,
            } => event!(
                target: WAIT,
                Level::WARN,
                stream,
                elapsed_us = micros(elapsed),
                threshold_us = micros(threshold),
                "slow host wait"
            ),
        }
    }
}

thread_local! {
    // These cells have no destructors, so they exist as long as their thread.
    /// Whether this thread is inside a subscriber.
    static SPEAKING: Cell<bool> = const { Cell::new(false) };
    /// The number of [`Later`]s of this thread.
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// The events that wait for the end of the outermost [`Later`].
    static WAITING: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
}

/// Whether a subscriber may want events of this level. One load where there is no subscriber.
#[inline]
fn listens(level: Level) -> bool {
    level <= STATIC_MAX_LEVEL && level <= LevelFilter::current()
}

/// Calls subscribers by `say`. `None` if none may run here, or one has panicked.
fn speak<T>(say: impl FnOnce() -> T) -> Option<T> {
    struct Spoken;
    impl Drop for Spoken {
        fn drop(&mut self) {
            SPEAKING.set(false);
        }
    }
    if SPEAKING.get() || host_function::is_inside() || call_lock::is_inside() {
        return None;
    }
    SPEAKING.set(true);
    let _spoken = Spoken;
    // Nothing of the library is half-changed inside: `say` changes a subscriber's state only.
    match catch_unwind(AssertUnwindSafe(say)) {
        Ok(said) => Some(said),
        Err(payload) => {
            // Its drop is user code too, and may panic.
            mem::forget(payload);
            None
        }
    }
}

/// Tells `event` now, or at the end of the outermost [`Later`].
#[cold]
fn tell(event: Event) {
    if SPEAKING.get() {
        return;
    }
    if HELD.get() > 0 {
        // In a destructor of a thread-local the queue may be gone. The event is then lost.
        let _ = WAITING.try_with(|waiting| waiting.borrow_mut().push(event));
        return;
    }
    tell_now(event);
}

fn tell_now(event: Event) {
    // A thread that unwinds tells nothing: the panic says more.
    if !thread::panicking() {
        speak(|| event.emit());
    }
}

/// Keeps this thread's events back until it is dropped. For code that takes a lock: declare it
/// before the lock.
#[derive(Debug)]
#[must_use = "events are told under the lock, if this is dropped before it"]
pub(crate) struct Later(PhantomData<*const ()>);

/// See [`Later`].
#[inline]
pub(crate) fn later() -> Later {
    HELD.set(HELD.get() + 1);
    Later(PhantomData)
}

impl Drop for Later {
    #[inline]
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
        if HELD.get() == 0 && listens(Level::ERROR) {
            tell_waiting();
        }
    }
}

#[cold]
fn tell_waiting() {
    // Taken out first: a subscriber may call the library.
    let waiting = WAITING.try_with(|waiting| mem::take(&mut *waiting.borrow_mut()));
    waiting.into_iter().flatten().for_each(tell_now);
}

/// A device instance was opened.
pub(crate) fn opened(properties: &Properties) {
    if listens(Level::INFO) {
        tell(Event::Opened {
            name: properties.name.clone(),
            ordinal: properties.ordinal,
            driver_version: properties.driver_version,
            simulated: properties.backend == Backend::Simulated,
        });
    }
}

/// A stream of the device `driver` was created.
pub(crate) fn stream_created(driver: &dyn Driver, stream: StreamId, priority: i32) {
    if listens(Level::DEBUG) {
        tell(Event::StreamCreated {
            ordinal: driver.properties().ordinal,
            stream: stream.number(),
            priority,
        });
    }
}

/// A pool of the library has taken memory.
pub(crate) fn pool_grown(driver: &dyn Driver, pool: &'static str, bytes: usize, bytes_after: usize) {
    if listens(Level::DEBUG) {
        tell(Event::Grown {
            ordinal: driver.properties().ordinal,
            pool,
            bytes_before: bytes_after.saturating_sub(bytes) as u64,
            bytes_after: bytes_after as u64,
        });
    }
}

/// The size of CUDA's pool before an allocation, if a subscriber wants to know of its growth.
pub(crate) struct Reserved(Option<u64>);

/// Asks CUDA how large its pool is, if a subscriber wants to know of its growth.
#[inline]
pub(crate) fn reserved(driver: &dyn Driver) -> Reserved {
    #[cold]
    fn ask(driver: &dyn Driver) -> Option<u64> {
        driver.pool_stats().ok().map(|stats| stats.reserved_bytes)
    }
    Reserved(if listens(Level::DEBUG) { ask(driver) } else { None })
}

impl Reserved {
    /// Tells of the growth of CUDA's pool since then.
    #[inline]
    pub(crate) fn told(self, driver: &dyn Driver) {
        if let Some(before) = self.0
            && let Some(after) = reserved(driver).0
            && after > before
        {
            tell(Event::Grown {
                ordinal: driver.properties().ordinal,
                pool: "device",
                bytes_before: before,
                bytes_after: after,
            });
        }
    }
}

/// A pool of the library has given `bytes` bytes back.
pub(crate) fn pool_trimmed(driver: &dyn Driver, pool: &'static str, bytes: usize) {
    if bytes > 0 && listens(Level::DEBUG) {
        tell(Event::Trimmed {
            ordinal: driver.properties().ordinal,
            pool,
            bytes: bytes as u64,
        });
    }
}

/// The driver's call failed, in our call `during`.
#[cold]
pub(crate) fn failed(during: &'static str, source: &DriverError) {
    if listens(Level::WARN) {
        tell(Event::Failed {
            during,
            source: source.clone(),
        });
    }
}

/// The call `during` was refused, because an ordering could not be made.
#[cold]
pub(crate) fn refused(during: &'static str, cause: &DriverError) {
    if listens(Level::ERROR) {
        tell(Event::Refused {
            during,
            cause: cause.clone(),
        });
    }
}

/// How long a wait of the host may last before a subscriber is warned, in nanoseconds; `u64::MAX`
/// for ever.
#[derive(Debug)]
pub(crate) struct SlowWait(AtomicU64);

impl Default for SlowWait {
    fn default() -> Self {
        Self(AtomicU64::new(1_000_000_000))
    }
}

impl SlowWait {
    pub(crate) fn set(&self, threshold: Option<Duration>) {
        let ns = threshold.map(|threshold| u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX));
        self.0.store(ns.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Runs `wait`, which blocks the host on work of `stream`, in a span.
    #[inline]
    pub(crate) fn around<T>(&self, stream: StreamId, wait: impl FnOnce() -> T) -> T {
        if !listens(Level::WARN) {
            return wait();
        }
        self.listened(stream, wait)
    }

    #[cold]
    fn listened<T>(&self, stream: StreamId, wait: impl FnOnce() -> T) -> T {
        let _inside = WaitSpan::enter(stream);
        let begun = Instant::now();
        let waited = wait();
        let elapsed = begun.elapsed();
        let threshold = self.0.load(Ordering::Relaxed);
        if threshold != u64::MAX && elapsed >= Duration::from_nanos(threshold) {
            tell(Event::SlowWait {
                stream: stream.number(),
                elapsed,
                threshold: Duration::from_nanos(threshold),
            });
        }
        waited
    }
}

/// The span of a wait, entered. The drop exits it, also where the wait unwinds.
struct WaitSpan(Option<Span>);

impl WaitSpan {
    fn enter(stream: StreamId) -> Option<Self> {
        if HELD.get() > 0 || !listens(Level::DEBUG) {
            return None;
        }
        let stream = stream.number();
        let span = speak(|| tracing::span!(target: WAIT, Level::DEBUG, "host_wait", stream))?;
        speak(|| span.with_subscriber(|(id, subscriber)| subscriber.enter(id)));
        Some(Self(Some(span)))
    }
}

impl Drop for WaitSpan {
    fn drop(&mut self) {
        let Some(span) = self.0.take() else {
            return;
        };
        // The drop of the span calls the subscriber: a span that must not be dropped here is
        // leaked. Each call is caught by itself, so none unwinds through the drop of the span.
        let span = ManuallyDrop::new(span);
        speak(|| span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
        speak(move || drop(ManuallyDrop::into_inner(span)));
    }
}
