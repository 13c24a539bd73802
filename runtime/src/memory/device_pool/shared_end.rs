//! [`SharedEnd`]: the end of the last uses of blocks that a stream dropped in a row.
//!
//! The blocks wait for one record of their stream. Counterexample: if each block held a record, a
//! stream that drops hundreds of blocks would find all its events leased
//! ([`Ring`](crate::order::ring)). It would then take an event of the pool for each handoff, and
//! share no record.
//!
//! ```text
//!   drop A      drop B      kernel     drop C
//!   record 1    record 2               record 3
//!   end {1} ──▶ end {2}: A and B       end {3}: C
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::order::completion::Question;
use crate::order::event_pool::EventLease;
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::DriverResult;

/// The end of the last uses of some blocks, all dropped on one stream.
///
/// # Invariants
/// SHARED-END-1. The record of `lease` covers each use of each block of this end, and the call that
/// told the driver that the block is free. If there is no lease, such a record was seen over. So a
/// record replaces only the record that its maker found here before: the maker's is later on the
/// same stream.
#[derive(Debug)]
pub(super) struct SharedEnd {
    lease: Mutex<Option<Arc<EventLease>>>,
}

impl SharedEnd {
    fn new(lease: Arc<EventLease>) -> Arc<Self> {
        let lease = Mutex::new(Some(lease));
        Arc::new(Self { lease })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<EventLease>>> {
        // The value is consistent after any panic: it changes by one store.
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease(&self) -> Option<Arc<EventLease>> {
        self.lock().clone()
    }

    /// Puts `new` in the place of `old`. Returns false, and changes nothing, if `old` is not there
    /// any more.
    fn replace(&self, old: &Arc<EventLease>, new: Option<Arc<EventLease>>) -> bool {
        let mut lease = self.lock();
        let found = lease.as_ref().is_some_and(|lease| Arc::ptr_eq(lease, old));
        if found {
            *lease = new;
        }
        found
    }

    /// Makes `at` wait for the end.
    pub(super) fn wait_on(&self, at: StreamRef) -> DriverResult<()> {
        match self.lease() {
            None => Ok(()),
            Some(lease) => lease.wait_on(at),
        }
    }
}

impl Question for Arc<SharedEnd> {
    /// Whether the end is over. Once it is, its event is free again.
    fn ask(&self) -> DriverResult<bool> {
        // The driver is asked outside of the lock: see `FreeBlocks::take_if_over`.
        let Some(lease) = self.lease() else {
            return Ok(true);
        };
        let over = lease.query()?;
        if over {
            self.replace(&lease, None);
        }
        Ok(over)
    }
}

/// An end that may cover one more block, and its record.
#[derive(Debug)]
pub(super) struct Latest {
    end: Arc<SharedEnd>,
    lease: Arc<EventLease>,
}

/// The ends of the streams' blocks. It keeps none of them alive: blocks do.
#[derive(Debug, Default)]
pub(super) struct SharedEnds {
    of_streams: [Mutex<VecDeque<Weak<SharedEnd>>>; Self::STREAMS],
}

impl SharedEnds {
    /// The number of queues. Streams with one remainder share a queue, and then share fewer ends.
    const STREAMS: usize = 32;

    /// The number of ends of a queue that nobody is asked about. They hold fewer events than the
    /// ring of a stream has.
    const UNASKED: usize = 32;

    fn queue(&self, id: StreamId) -> MutexGuard<'_, VecDeque<Weak<SharedEnd>>> {
        let queue = &self.of_streams[id.modulo(Self::STREAMS)];
        // The queue is only pushed to and popped from, so a panic leaves it whole.
        queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest end of `at`, if nothing was enqueued on `at` since its record.
    pub(super) fn latest(&self, at: StreamRef) -> Option<Latest> {
        let end = self.queue(at.id()).back()?.upgrade()?;
        let lease = end.lease()?;
        lease.is_end_of(at).then_some(Latest { end, lease })
    }

    /// The end of a block that was dropped on `at`; `record` covers its uses, and the call that
    /// told the driver that it is free. The blocks of `latest` get this record too, which comes
    /// later: nothing but the drop is between the two records.
    pub(super) fn end(&self, at: StreamRef, latest: Option<Latest>, record: EventLease) -> Arc<SharedEnd> {
        let record = Arc::new(record);
        // SHARED-END-1: another drop may have replaced the lease of `latest`.
        if let Some(Latest { end, lease }) = latest
            && end.replace(&lease, Some(Arc::clone(&record)))
        {
            return end;
        }
        let end = SharedEnd::new(record);
        self.queue(at.id()).push_back(Arc::downgrade(&end));
        self.ask_oldest(at.id());
        end
    }

    /// Asks whether the oldest ends are over. There are two questions for each new end, so a stream
    /// whose work comes to its end holds few events, whether its blocks are reused or not.
    fn ask_oldest(&self, id: StreamId) {
        for _ in 0..2 {
            let oldest = {
                let mut queue = self.queue(id);
                if queue.len() <= Self::UNASKED {
                    return;
                }
                queue.pop_front()
            };
            let Some(end) = oldest.as_ref().and_then(Weak::upgrade) else {
                continue;
            };
            // An error says nothing about the work (docs/soundness.md, obligation 4).
            if !Question::ask(&end).unwrap_or(false) {
                self.queue(id).push_front(Arc::downgrade(&end));
                return;
            }
        }
    }
}
