//! [`EventCounts`]: what a device's pool of events counts for [`Metrics`](crate::observability).
//!
//! The rings count their own records, so the usual record costs nothing here.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::order::clocks::Clock;

/// Figures of the events of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFigures {
    pub(crate) live: usize,
    pub(crate) idle: usize,
    /// Records that were not left out; failed ones count.
    pub(crate) records: u64,
}

/// Counts, which order nothing.
#[derive(Debug, Default)]
pub(super) struct EventCounts {
    live: AtomicUsize,
    /// Records that no ring has counted.
    elsewhere: AtomicU64,
    has_refused: AtomicBool,
}

impl EventCounts {
    /// An event was created.
    pub(super) fn created(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// An event was destroyed.
    pub(super) fn destroyed(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// A record is made that no ring has counted.
    pub(super) fn recorded_elsewhere(&self) {
        self.elsewhere.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether no earlier call was refused because of the sticky error.
    #[cold]
    pub(super) fn is_first_refusal(&self) -> bool {
        !self.has_refused.swap(true, Ordering::Relaxed)
    }

    /// The figures of a pool that has `pooled` idle events, and of the rings of `streams`.
    pub(super) fn figures(&self, pooled: usize, streams: &[&'static Clock]) -> EventFigures {
        let (mut idle, mut records) = (pooled, self.elsewhere.load(Ordering::Relaxed));
        for clock in streams {
            // A ring that another thread holds has no idle event for now.
            let (counted, free) = match clock.ring().try_lock() {
                Some(ring) => ring.figures(),
                None => (clock.last_recorded(), 0),
            };
            records += counted;
            idle += free;
        }
        // Events may have come and gone in between.
        let live = self.live.load(Ordering::Relaxed).max(idle);
        EventFigures { live, idle, records }
    }
}
