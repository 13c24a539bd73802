//! The ends of uses by several owners of one thing.

use std::sync::Arc;

use crate::order::event_pool::{EventLease, EventPool};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::{Unless, unwound};
use cuda_rt_driver::DriverError;

/// Uses of one thing that ended on several streams: what must be over before it may be written,
/// freed or reused.
#[derive(Debug, Default)]
pub(crate) struct LastUses {
    /// The last event of each stream on which a use ended.
    streams: Vec<(StreamRef, EventLease)>,
    /// What ended behind events of others.
    fences: Vec<Fence>,
    /// Why the end of a use could not be recorded.
    failure: Option<DriverError>,
}

impl LastUses {
    /// Does `note`, which notes the end of a use. Where it unwinds, the end is not known, and the
    /// fence of all uses is lost.
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut Self)) {
        let mut ended = Unless::new(self, |ended| ended.failure = Some(unwound("cuEventRecord")));
        note(&mut ended);
        ended.take_back();
    }

    /// A use ends at the present end of `at`.
    ///
    /// Called under the lock that guards `self`: were the event recorded before the lock is taken,
    /// two threads that end uses on one stream could record in one order and get the lock in the
    /// other, and the earlier event would replace the later. The call may run a simulated kernel:
    /// one that ends a use of the same thing waits for its own thread.
    pub(crate) fn on(&mut self, events: &Arc<EventPool>, at: StreamRef) {
        match events.record(at, false) {
            // A later event of a stream covers its earlier ones, so one for each stream is enough.
            Ok(lease) => match self.streams.iter_mut().find(|(stream, _)| stream.id == at.id) {
                Some(last) => last.1 = lease,
                None => self.streams.push((at, lease)),
            },
            Err(error) => self.failure = Some(error),
        }
    }

    /// A use ends once `fence` is over.
    pub(crate) fn behind(&mut self, fence: Fence) {
        if !fence.is_done() {
            self.fences.push(fence);
        }
    }

    /// Forgets what was seen over (`cuEventQuery`), so that the ends of uses of a long-lived thing
    /// do not add up, whose fences and adopted streams are new each time. An error says nothing of
    /// the work, which stays.
    pub(crate) fn tidy(&mut self) {
        self.fences.retain(|fence| !fence.query().unwrap_or(false));
        self.streams.retain(|(_, lease)| !lease.query().unwrap_or(false));
    }

    /// The stream on which all uses ended, if it is one, and one that is still there: an adopted
    /// one may be gone by now.
    pub(crate) fn only_stream(&self) -> Option<StreamRef> {
        match (&*self.streams, &*self.fences, &self.failure) {
            ([(at, _)], [], None) if !at.id.is_adopted() => Some(*at),
            _ => None,
        }
    }

    /// Over when every use is.
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
