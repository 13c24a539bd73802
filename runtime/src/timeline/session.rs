//! [`Session`]: the observer of one recording, which collects the device's and the host's work.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::events::{EventLog, Marks};
use super::host_clock::HostClock;
use crate::order::event_pool::EventPool;
use crate::order::observer::{Observer, Operation};
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::Kind;
use cuda_rt_driver::{DriverResult, RawEvent, Trace};
use cuda_rt_timeline::Source;

/// The data of one recording, and its observer.
#[derive(Debug)]
pub(super) struct Session {
    /// The events of the recorded device.
    events: Arc<EventPool>,
    clock: HostClock,
    /// Where the times of the device's work come from.
    source: Source,
    collected: Mutex<Collected>,
}

#[derive(Debug, Default)]
pub(super) struct Collected {
    /// The streams seen, in the order in which they appeared, with the names of their tags.
    pub(super) streams: Vec<(StreamRef, &'static str)>,
    pub(super) threads: HashMap<ThreadId, (usize, Option<String>)>,
    pub(super) host: Vec<HostSpan>,
    pub(super) log: EventLog,
    pub(super) trace: Option<Box<dyn Trace>>,
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

impl Session {
    pub(super) fn new(
        events: &Arc<EventPool>,
        clock: HostClock,
        source: Source,
        log: EventLog,
        trace: Option<Box<dyn Trace>>,
    ) -> Self {
        Self {
            events: Arc::clone(events),
            clock,
            source,
            collected: Mutex::new(Collected {
                log,
                trace,
                ..Collected::default()
            }),
        }
    }

    /// Whether the recorded device is the device of `events`.
    pub(super) fn records(&self, events: &Arc<EventPool>) -> bool {
        Arc::ptr_eq(&self.events, events)
    }

    /// Where the times of the device's work come from.
    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// The calling thread's time, in ns. It is modelled if the device's time is modelled.
    pub(super) fn host_now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(super) fn collected(&self) -> MutexGuard<'_, Collected> {
        // A panic under the lock can at worst have lost a span.
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, note: impl FnOnce(&mut EventLog)) {
        if self.source != Source::Model {
            note(&mut self.collected().log);
        }
    }

    fn know(&self, at: StreamRef, tag: &'static str) {
        let streams = &mut self.collected().streams;
        // There are few streams: a search is faster than a hash.
        if streams.iter().all(|(known, _)| known.id() != at.id()) {
            streams.push((at, tag));
        }
    }

    /// Adds a span of the calling thread that ends now.
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

impl Observer for Session {
    fn operation(
        &self,
        at: StreamRef,
        tag: &'static str,
        operation: Operation,
        work: &mut dyn FnMut() -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.know(at, tag);
        match self.source {
            Source::Model => work(),
            Source::Cupti => {
                work()?;
                self.log(|log| log.operation(at.id(), operation, None));
                Ok(())
            }
            Source::Events => {
                let start = Marks::start(&self.events, at);
                work()?;
                let marks = start.and_then(|start| start.end(&self.events, at));
                self.log(|log| log.operation(at.id(), operation, marks));
                Ok(())
            }
        }
    }

    fn event_recorded(&self, at: StreamRef, event: RawEvent) {
        self.log(|log| log.record(at.id(), event));
    }

    fn stream_waits(&self, at: StreamRef, event: RawEvent) {
        self.log(|log| log.wait(at.id(), event));
    }

    fn host_waits(&self, stream: StreamId, wait: &mut dyn FnMut() -> DriverResult<()>) -> DriverResult<()> {
        let start_ns = self.host_now_ns();
        wait()?;
        self.add_host(
            Kind::HostWait,
            "wait for the device".into(),
            start_ns,
            Some(stream),
        );
        Ok(())
    }
}
