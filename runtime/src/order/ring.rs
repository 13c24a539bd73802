//! [`Ring`]: the events of one stream, and its last record.

use std::collections::VecDeque;

use crate::order::clocks::Clock;
use crate::order::live_event::{EventLease, Resident};
use cuda_rt_driver::DriverResult;

/// The events that a stream keeps for itself, used in turn. Further events that are leased at once
/// come from the pool of the device.
///
/// # Invariants
/// RING-1. If the stream's clock has counted the call of record `number`, the event `current` holds
/// this record, the last one of the stream that is numbered.
/// RING-2. The stream of an event has a place.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The last number that was given out.
    number: u64,
    /// The event of the last record, if there was one.
    current: Option<Resident>,
    /// The other events. The front was recorded longest ago.
    others: VecDeque<Resident>,
}

impl Ring {
    /// The most events of a stream. A handoff in flight has one, so a stream with fewer handoffs in
    /// flight needs no event of the pool, whose lock costs more.
    const EVENTS: usize = 128;

    /// The number of other events that a record looks at before it takes an event of the pool.
    const LOOKED_AT: usize = 4;

    /// A further lease of the last record, if it covers all work that the caller knows of.
    #[inline]
    pub(super) fn again(&self, clock: &Clock) -> Option<EventLease> {
        if !clock.is_covered_by(self.number) {
            return None;
        }
        let event = self.current.as_ref()?;
        // SAFETY: EVENT-LEASE-1: RING-1, and by SEEN-3 the record covers all that it must.
        unsafe { event.lease() }
    }

    /// The number of the next record. It is given out once. Until the clock has counted the
    /// record's call, no record is shared (RING-1).
    #[inline]
    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// The event of the last record, if it has no lease. A stream that hands over in a loop finds
    /// it free again.
    #[inline]
    pub(super) fn free_event(&self) -> Option<&Resident> {
        self.current.as_ref().filter(|event| event.is_free())
    }

    /// Makes another event `current`, one without leases, for the next record, which has got its
    /// number. It is one of the other events, or the event that `create` returns. `None` if the
    /// next events are all leased.
    #[cold]
    pub(super) fn turn(
        &mut self,
        create: impl FnOnce() -> DriverResult<Resident>,
    ) -> DriverResult<Option<&Resident>> {
        let mut free = None;
        for _ in 0..Self::LOOKED_AT {
            let Some(event) = self.others.pop_front() else {
                break;
            };
            if event.is_free() {
                free = Some(event);
                break;
            }
            self.others.push_back(event);
        }
        if free.is_none() && self.others.len() + 1 >= Self::EVENTS {
            return Ok(None);
        }
        let event = match free {
            Some(event) => event,
            None => create()?,
        };
        if let Some(leased) = self.current.replace(event) {
            self.others.push_back(leased);
        }
        Ok(self.current.as_ref())
    }

    /// The number of records that were given a number, and the number of events without a lease.
    pub(super) fn figures(&self) -> (u64, usize) {
        let events = self.current.iter().chain(&self.others);
        (self.number, events.filter(|event| event.is_free()).count())
    }

    /// Takes all events out, for the end of the device. The next stream starts anew.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Resident> + use<> {
        let Self { current, others, .. } = std::mem::take(self);
        current.into_iter().chain(others)
    }
}
