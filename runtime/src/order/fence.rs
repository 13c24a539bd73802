//! [`Fence`]: the events that must finish before memory may be touched. A fence holds event leases;
//! a dropped lease returns its event to the pool.

use std::io;
use std::sync::Arc;

use crate::order::completion::{Completion, Done, Question};
use crate::order::event_pool::{EventLease, EventPool};
use crate::order::stream_ref::StreamRef;
use cuda_rt_driver::{DriverError, DriverResult};

/// A condition that must be over before a resource may be touched: no event, one event, or several.
#[derive(Debug)]
#[doc(hidden)]
pub struct Fence(Kind);

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Done,
    One(EventLease),
    Shared(Arc<EventLease>),
    /// Two or more leases, each once.
    Several(Vec<Arc<EventLease>>),
    /// The end of a use could not be recorded, so it is never known to be over.
    Lost(DriverError),
    /// The present end of a stream. No event is recorded yet; each wait records one. In a box, so
    /// that a handoff is small.
    EndOf(Box<EndOf>),
}

/// The end of a stream, whose device core lives as long as this value.
#[derive(Debug)]
struct EndOf {
    at: StreamRef,
    events: Arc<EventPool>,
}

impl EndOf {
    fn record(&self) -> DriverResult<EventLease> {
        self.events.record(self.at, false)
    }
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

    /// The present end of `at`, which is no adopted stream. Records nothing yet: memory that is
    /// freed on this very stream needs no event. The caller keeps the stream's core as long as the
    /// fence.
    pub(crate) fn end_of(at: StreamRef, events: &Arc<EventPool>) -> Self {
        let events = Arc::clone(events);
        Self(Kind::EndOf(Box::new(EndOf { at, events })))
    }

    /// The stream whose present end this fence is, if it is no other fence.
    pub(crate) fn stream(&self) -> Option<StreamRef> {
        match &self.0 {
            Kind::EndOf(end) => Some(end.at),
            _ => None,
        }
    }

    /// The same fence, with an event for the end of a stream (`cuEventRecord`). It is lost if the
    /// event cannot be recorded.
    pub(crate) fn recorded(self) -> Self {
        match self.0 {
            Kind::EndOf(end) => end.record().map_or_else(Self::lost, Self::from),
            kind => Self(kind),
        }
    }

    /// A fence that is over when all of `fences` are. It is lost if one of them is lost. The result
    /// is flat, and holds an event that several fences share only once.
    pub(crate) fn all(fences: impl IntoIterator<Item = Self>) -> Self {
        let mut leases: Vec<Arc<EventLease>> = Vec::new();
        let mut end: Option<Box<EndOf>> = None;
        for fence in fences {
            match fence.0 {
                Kind::Done => {}
                Kind::One(lease) => leases.push(Arc::new(lease)),
                Kind::Shared(lease) => leases.push(lease),
                Kind::Several(more) => leases.extend(more),
                Kind::Lost(error) => return Self::lost(error),
                Kind::EndOf(other) => match end.replace(other).map(|end| end.record()) {
                    None => {}
                    Some(Ok(lease)) => leases.push(Arc::new(lease)),
                    Some(Err(error)) => return Self::lost(error),
                },
            }
        }
        if let Some(end) = end {
            if leases.is_empty() {
                return Self(Kind::EndOf(end));
            }
            match end.record() {
                Ok(lease) => leases.push(Arc::new(lease)),
                Err(error) => return Self::lost(error),
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

    /// Calls `each` with every event, up to the first error.
    fn try_each(&self, mut each: impl FnMut(&EventLease) -> DriverResult<()>) -> DriverResult<()> {
        match &self.0 {
            Kind::Done => Ok(()),
            Kind::One(lease) => each(lease),
            Kind::Shared(lease) => each(lease),
            Kind::Several(leases) => leases.iter().try_for_each(|lease| each(lease)),
            Kind::Lost(error) => Err(error.clone()),
            Kind::EndOf(end) => each(&end.record()?),
        }
    }

    /// Makes `at` wait for all events on the GPU. After an error some waits may already be
    /// enqueued, which only delays `at`.
    #[inline]
    pub(crate) fn wait_on(&self, at: StreamRef) -> DriverResult<()> {
        self.wait_on_borrowed(&at)
    }

    /// As [`wait_on`](Self::wait_on). The stream is borrowed, as in
    /// [`record_on`](EventPool::record_on).
    #[inline]
    pub(crate) fn wait_on_borrowed(&self, at: &StreamRef) -> DriverResult<()> {
        match &self.0 {
            Kind::One(lease) => lease.wait_on_borrowed(at),
            _ => self.wait_for_all(*at),
        }
    }

    fn wait_for_all(&self, at: StreamRef) -> DriverResult<()> {
        if self.stream().is_some_and(|end| end.id() == at.id()) {
            return Ok(());
        }
        self.try_each(|lease| lease.wait_on(at))
    }

    /// Drops the fence. One lease, which is the usual fence, ends here without a call.
    #[inline]
    pub(crate) fn end(self) {
        match self.0 {
            Kind::One(lease) => drop(lease),
            kind => Self(kind).end_slowly(),
        }
    }

    #[cold]
    fn end_slowly(self) {
        drop(self);
    }

    /// Blocks the host until all events are over.
    #[inline]
    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        match &self.0 {
            Kind::One(lease) => lease.synchronize(),
            _ => self.try_each(EventLease::synchronize),
        }
    }

    /// Whether all events are over.
    pub(crate) fn query(&self) -> DriverResult<bool> {
        let mut over = true;
        self.try_each(|lease| {
            // Once one event is pending, the others need no query.
            over = over && lease.query()?;
            Ok(())
        })?;
        Ok(over)
    }

    /// The threads that wait for the events. `None` if the fence has no events: it is over or lost,
    /// and [`query`](Self::query) says which. A fence that a handoff holds has its events.
    pub(crate) fn completion(&self) -> Option<&Completion> {
        match &self.0 {
            Kind::Done | Kind::Lost(_) | Kind::EndOf(_) => None,
            Kind::One(lease) => Some(lease.completion()),
            Kind::Shared(lease) => Some(lease.completion()),
            Kind::Several(leases) => Some(leases.first()?.completion()),
        }
    }

    /// Does `done` on a thread of the device once the fence is over or a query fails. For a fence
    /// without events it drops `done` and does nothing.
    pub(crate) fn watch(&mut self, done: Done) -> io::Result<()> {
        let second = self.share();
        match second.0 {
            Kind::Done | Kind::Lost(_) | Kind::One(_) | Kind::EndOf(_) => Ok(()),
            Kind::Shared(lease) => {
                let question = Arc::<EventLease>::clone(&lease);
                lease.watch(question, Some(lease.origin()), done)
            }
            Kind::Several(ref leases) => {
                let first = Arc::clone(&leases[0]);
                first.watch(Arc::new(second), None, done)
            }
        }
    }

    /// Runs `body` on the device's thread for closures once the fence is over or a query fails. For
    /// a fence without events it drops `body` and does nothing.
    pub(crate) fn watch_closure(
        &mut self,
        body: impl FnOnce(DriverResult<()>) + Send + 'static,
    ) -> io::Result<()> {
        let Some(completion) = self.completion() else {
            return Ok(());
        };
        let done = Done::run(completion, body)?;
        self.watch(done)
    }

    /// A second holder of the same events. For the end of a stream an event is recorded.
    pub(crate) fn share(&mut self) -> Self {
        if let Kind::EndOf(end) = &self.0 {
            let recorded = end.record().map_or_else(Kind::Lost, Kind::One);
            self.0 = recorded;
        }
        self.0 = match std::mem::take(&mut self.0) {
            Kind::One(lease) => Kind::Shared(Arc::new(lease)),
            other => other,
        };
        Self(match &self.0 {
            Kind::Shared(lease) => Kind::Shared(Arc::clone(lease)),
            Kind::Several(leases) => Kind::Several(leases.clone()),
            Kind::Lost(error) => Kind::Lost(error.clone()),
            Kind::Done | Kind::One(_) | Kind::EndOf(_) => Kind::Done,
        })
    }
}

impl Question for Fence {
    fn ask(&self) -> DriverResult<bool> {
        self.query()
    }
}
