//! [`RunTimeStreams`]: the CUDA streams that a device lends to the holders of run-time streams.
//!
//! ```text
//!   create_stream ──▶ a returned stream, or a new one ──▶ StreamState ◀── handles, kept bundles
//!                              ▲                                │
//!                              └──── the last holder drops ─────┘
//! ```
//!
//! A CUDA stream is never destroyed before its device: pending frees and the fences of handoffs may
//! still name it (CORE-1). It is lent again instead, with the same identity, because it is the same
//! stream: the work of its next holder comes after all earlier work, and so does a late free of an
//! earlier holder.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::order::stream_ref::{StreamId, StreamRef};
use crate::tag::Priority;

/// What all holders of one stream share: its identity and its name. The drop returns the CUDA
/// stream to the device, if the stream was created at run time.
pub(crate) struct StreamState {
    at: StreamRef,
    name: Box<str>,
    /// The priority of a stream that was created at run time. Other streams have an owner already.
    created: Option<Priority>,
    streams: Arc<RunTimeStreams>,
}

impl StreamState {
    #[inline]
    pub(crate) fn at(&self) -> StreamRef {
        self.at
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamState")
            .field("name", &self.name)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        let mut entries = self.streams.entries();
        // Another thread may have entered the stream again, once this state had no holder left.
        if let Some(state) = entries.held.get(&self.at.id())
            && state.strong_count() == 0
        {
            entries.held.remove(&self.at.id());
        }
        if let Some(priority) = self.created {
            entries.returned.push_back((priority, self.at));
        }
    }
}

/// The run-time streams of one device. The device's core owns the CUDA streams.
#[derive(Debug, Default)]
pub(crate) struct RunTimeStreams(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    held: BTreeMap<StreamId, Weak<StreamState>>,
    /// Streams without a holder. The first was returned first, so its work is the likeliest to be
    /// done.
    returned: VecDeque<(Priority, StreamRef)>,
}

impl RunTimeStreams {
    /// The value is consistent after any panic: each entry is inserted or removed in one step.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream of this priority whose last holder has returned it.
    pub(super) fn take_returned(&self, priority: Priority) -> Option<StreamRef> {
        let mut entries = self.entries();
        let place = entries
            .returned
            .iter()
            .position(|(other, _)| *other == priority)?;
        entries.returned.remove(place).map(|(_, at)| at)
    }

    /// The number of streams without a holder.
    pub(super) fn count_returned(&self) -> usize {
        self.entries().returned.len()
    }

    /// Enters a stream that was created at run time.
    pub(super) fn enter(self: &Arc<Self>, at: StreamRef, name: &str, priority: Priority) -> Arc<StreamState> {
        let state = self.state(at, name, Some(priority));
        self.entries().held.insert(at.id(), Arc::downgrade(&state));
        state
    }

    /// The state of the stream `at`, whose holders share it. A stream that was not created at run
    /// time gets its state here, with the name `name`.
    pub(super) fn state_of(
        self: &Arc<Self>,
        at: StreamRef,
        name: impl FnOnce() -> &'static str,
    ) -> Arc<StreamState> {
        if let Some(state) = self.find(at.id()) {
            return state;
        }
        // Declared before the lock, so dropped after it: the drop of a state takes the lock.
        let new = self.state(at, name(), None);
        let mut entries = self.entries();
        if let Some(state) = entries.held.get(&at.id()).and_then(Weak::upgrade) {
            return state;
        }
        entries.held.insert(at.id(), Arc::downgrade(&new));
        drop(entries);
        new
    }

    /// The state of the stream `id`, if it has one.
    pub(super) fn find(&self, id: StreamId) -> Option<Arc<StreamState>> {
        let entries = self.entries();
        entries.held.get(&id).and_then(Weak::upgrade)
    }

    fn state(self: &Arc<Self>, at: StreamRef, name: &str, created: Option<Priority>) -> Arc<StreamState> {
        Arc::new(StreamState {
            at,
            name: name.into(),
            created,
            streams: Arc::clone(self),
        })
    }
}
