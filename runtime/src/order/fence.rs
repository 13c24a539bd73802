//! [`Fence`]: the events that must finish before memory may be touched. A fence holds event leases;
//! a dropped lease returns its event to the pool.

use std::io;
use std::sync::Arc;

use crate::order::completion::{Completion, Done, Question};
use crate::order::event_pool::EventLease;
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

    /// A fence that is over when all of `fences` are. It is lost if one of them is lost. The result
    /// is flat, and holds an event that several fences share only once.
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

    /// Calls `each` with every event, up to the first error.
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

    /// Makes `at` wait for all events on the GPU. After an error some waits may already be
    /// enqueued, which only delays `at`.
    #[inline]
    pub(crate) fn wait_on(&self, at: StreamRef) -> DriverResult<()> {
        self.try_each(|lease| lease.wait_on(at))
    }

    /// Blocks the host until all events are over.
    pub(crate) fn synchronize(&self) -> DriverResult<()> {
        self.try_each(EventLease::synchronize)
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
    /// and [`query`](Self::query) says which.
    pub(crate) fn completion(&self) -> Option<&Completion> {
        match &self.0 {
            Kind::Done | Kind::Lost(_) => None,
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
            Kind::Done | Kind::Lost(_) | Kind::One(_) => Ok(()),
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

impl Question for Fence {
    fn ask(&self) -> DriverResult<bool> {
        self.query()
    }
}
