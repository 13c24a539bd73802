//! The hooks by which the typed API tells a recording what it does, and what a recording keeps of
//! it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use super::events::{EventLog, Marks};
use crate::order::event_pool::EventPool;
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::Kind;
use cuda_rt_driver::{DriverResult, RawEvent, Trace};
use cuda_rt_simulator::Simulator;
use cuda_rt_timeline::Source;

/// What an operation is, for its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) label: &'static str,
    pub(crate) bytes: u64,
}

/// Whether a device is recorded, and by what. While it is not, a hook is one relaxed load.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    on: AtomicBool,
    session: Mutex<Option<Arc<Session>>>,
}

impl Recorder {
    /// Orders nothing: work that races with the start or the end of a recording may be in it or
    /// not.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.slot().clone()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        // One store at a time: a panic leaves it whole.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to tell `session`; false if another one is being told.
    pub(super) fn start(&self, session: &Arc<Session>) -> bool {
        let mut slot = self.slot();
        if slot.is_some() {
            return false;
        }
        *slot = Some(Arc::clone(session));
        self.on.store(true, Ordering::Relaxed);
        true
    }

    pub(super) fn stop(&self) {
        self.on.store(false, Ordering::Relaxed);
        *self.slot() = None;
    }

    /// An event was recorded at the present end of a stream.
    #[cold]
    pub(crate) fn note_record(&self, at: StreamRef, event: RawEvent) {
        if let Some(session) = self.session() {
            session.log(|log| log.record(at.id, event));
        }
    }

    /// A stream waits for an event that another one recorded.
    #[cold]
    pub(crate) fn note_wait(&self, at: StreamRef, event: RawEvent) {
        if let Some(session) = self.session() {
            session.log(|log| log.wait(at.id, event));
        }
    }

    /// Blocks the host in `wait`, on work of the stream.
    #[cold]
    pub(crate) fn host_wait(
        &self,
        stream: StreamId,
        wait: impl FnOnce() -> DriverResult<()>,
    ) -> DriverResult<()> {
        let Some(session) = self.session() else {
            return wait();
        };
        let start_ns = session.host_now_ns();
        wait()?;
        session.add_host(
            Kind::HostWait,
            "wait for the device".into(),
            start_ns,
            Some(stream),
        );
        Ok(())
    }
}

/// Gives `at` the operation that `work` enqueues, and tells the recording.
#[cold]
pub(crate) fn around(
    events: &Arc<EventPool>,
    at: StreamRef,
    tag: &'static str,
    operation: Operation,
    work: impl FnOnce() -> DriverResult<()>,
) -> DriverResult<()> {
    let Some(session) = events.recorder().session() else {
        return work();
    };
    session.know(at, tag);
    match session.source {
        Source::Model => work(),
        Source::Cupti => {
            work()?;
            session.log(|log| log.operation(at.id, operation, None));
            Ok(())
        }
        Source::Events => {
            let start = Marks::start(events, at);
            work()?;
            let marks = start.and_then(|start| start.end(events, at));
            session.log(|log| log.operation(at.id, operation, marks));
            Ok(())
        }
    }
}

/// A span of a host thread.
#[derive(Debug)]
pub(super) struct HostSpan {
    pub(super) kind: Kind,
    pub(super) label: Cow<'static, str>,
    pub(super) thread: ThreadId,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) on: Option<StreamId>,
}

/// What one recording collects.
#[derive(Debug)]
pub(super) struct Session {
    clock: HostClock,
    /// Where the times of the device's work come from.
    source: Source,
    collected: Mutex<Collected>,
}

/// The host's time, on the scale of the device's.
#[derive(Debug)]
pub(super) enum HostClock {
    /// The modelled clock of the calling thread, and its time when the device's was 0.
    Modelled(Simulator, u64),
    /// Real time, and when the device's was 0.
    Real(Instant),
}

impl HostClock {
    pub(super) fn now_ns(&self) -> u64 {
        match self {
            Self::Modelled(simulator, zero_ns) => simulator.host_now_ns().saturating_sub(*zero_ns),
            Self::Real(zero) => zero.elapsed().as_nanos() as u64,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Collected {
    /// The streams seen, in the order in which they came, with the names of their tags.
    pub(super) streams: Vec<(StreamRef, &'static str)>,
    pub(super) threads: HashMap<ThreadId, (usize, Option<String>)>,
    pub(super) host: Vec<HostSpan>,
    pub(super) log: EventLog,
    pub(super) trace: Option<Box<dyn Trace>>,
}

impl Session {
    pub(super) fn new(
        clock: HostClock,
        source: Source,
        log: EventLog,
        trace: Option<Box<dyn Trace>>,
    ) -> Self {
        Self {
            clock,
            source,
            collected: Mutex::new(Collected {
                log,
                trace,
                ..Collected::default()
            }),
        }
    }

    /// Where the times of the device's work come from.
    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// The calling thread's time, in ns: modelled where the device's is.
    pub(super) fn host_now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(super) fn collected(&self) -> MutexGuard<'_, Collected> {
        // A panic inside can at worst have lost a span.
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, note: impl FnOnce(&mut EventLog)) {
        if self.source != Source::Model {
            note(&mut self.collected().log);
        }
    }

    fn know(&self, at: StreamRef, tag: &'static str) {
        let streams = &mut self.collected().streams;
        // A handful: found faster than hashed.
        if streams.iter().all(|(known, _)| known.id != at.id) {
            streams.push((at, tag));
        }
    }

    /// A span of the calling thread that ends now.
    pub(super) fn add_host(&self, kind: Kind, label: Cow<'static, str>, start_ns: u64, on: Option<StreamId>) {
        let (thread, end_ns) = (thread::current(), self.host_now_ns());
        let mut collected = self.collected();
        let number = collected.threads.len();
        collected
            .threads
            .entry(thread.id())
            .or_insert_with(|| (number, thread.name().map(str::to_owned)));
        collected.host.push(HostSpan {
            kind,
            label,
            thread: thread.id(),
            start_ns,
            end_ns: end_ns.max(start_ns),
            on,
        });
    }
}
