//! [`LastUses`]: the ends of the uses of one resource by several owners.

use std::sync::Arc;

use crate::order::event_pool::{EventLease, EventPool};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::{Unless, unwound};
use cuda_rt_driver::DriverError;

/// The ends of a resource's uses, on several streams. All must be over before the resource may be
/// written, freed or reused.
#[derive(Debug, Default)]
pub(crate) struct LastUses {
    /// The last event of each stream on which a use ended.
    streams: Vec<(StreamRef, EventLease)>,
    /// The fences of the uses that ended behind other events.
    fences: Vec<Fence>,
    /// The error if the end of a use could not be recorded.
    failure: Option<DriverError>,
}

impl LastUses {
    /// Calls `note`, which notes the end of a use. If `note` unwinds, the end is unknown, and the
    /// fence of all uses is lost.
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut Self)) {
        let mut ended = Unless::new(self, |ended| ended.failure = Some(unwound("cuEventRecord")));
        note(&mut ended);
        ended.take_back();
    }

    /// Notes that a use ends at the present end of `at` (`cuEventRecord`).
    ///
    /// The caller holds the lock that guards `self`. If the event were recorded before the lock is
    /// taken, two threads that end uses on one stream could record in one order and take the lock
    /// in the other order. The earlier event would then replace the later event. The call may run a
    /// simulated kernel. A kernel that ends a use of the same resource would wait for its own
    /// thread.
    pub(crate) fn on(&mut self, events: &Arc<EventPool>, at: StreamRef) {
        match events.record(at, false) {
            // A later event of a stream covers its earlier ones, so one for each stream is enough.
            Ok(lease) => match self.streams.iter_mut().find(|(stream, _)| stream.id() == at.id()) {
                Some(last) => last.1 = lease,
                None => self.streams.push((at, lease)),
            },
            Err(error) => self.failure = Some(error),
        }
    }

    /// Notes that a use ends once `fence` is over.
    pub(crate) fn behind(&mut self, fence: Fence) {
        if !fence.is_done() {
            self.fences.push(fence);
        }
    }

    /// Forgets the ends that a query sees over (`cuEventQuery`). Otherwise the ends would add up
    /// for a long-lived resource whose fences and adopted streams are new each time. An end whose
    /// query fails stays: an error says nothing about the work.
    pub(crate) fn tidy(&mut self) {
        self.fences.retain(|fence| !fence.query().unwrap_or(false));
        self.streams.retain(|(_, lease)| !lease.query().unwrap_or(false));
    }

    /// The stream on which all uses ended, if it is a single stream that still exists. An adopted
    /// stream does not count, because it may be destroyed by now.
    pub(crate) fn only_stream(&self) -> Option<StreamRef> {
        match (&*self.streams, &*self.fences, &self.failure) {
            ([(at, _)], [], None) if !at.is_adopted() => Some(*at),
            _ => None,
        }
    }

    /// The fence that is over when every use is over.
    pub(crate) fn into_fence(self) -> Fence {
        match self.failure {
            Some(error) => Fence::lost(error),
            None => Fence::all(
                self.streams
                    .into_iter()
                    .map(|(_, lease)| lease.into())
                    .chain(self.fences),
            ),
        }
    }
}
