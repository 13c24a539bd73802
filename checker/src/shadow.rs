//! The accesses to each byte that can still race, in an interval map.

use std::collections::BTreeMap;
use std::ops::Range;

use super::vector_clock::Epoch;
use crate::VectorClock;
use cuda_rt_driver::{AccessKind, Operation};

#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) epoch: Epoch,
    pub(super) kind: AccessKind,
    pub(super) operation: Operation,
}

#[derive(Clone, Debug)]
struct Segment {
    end: u64,
    /// At most one read and one write of each actor: a later access of the same kind replaces the
    /// earlier.
    accesses: Vec<Access>,
}

/// # Invariants
/// Segments are disjoint, not empty, and hold at least one access.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    segments: BTreeMap<u64, Segment>,
}

impl Shadow {
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Notes an access whose actor's clock is `clock`, and calls `race` for each earlier access
    /// that it races with.
    pub(super) fn access(
        &mut self,
        range: Range<u64>,
        access: Access,
        clock: &VectorClock,
        mut race: impl FnMut(&Access, Range<u64>),
    ) {
        if range.is_empty() {
            return;
        }
        if let Some(segment) = self.segments.get_mut(&range.start)
            && segment.end == range.end
        {
            Self::note(&mut segment.accesses, access, clock, |other| {
                race(other, range.clone())
            });
            return;
        }
        self.split(range.start);
        self.split(range.end);
        let mut alone = access.kind == AccessKind::Write;
        let (mut gaps, mut end) = (Vec::new(), range.start);
        for (&start, segment) in self.segments.range_mut(range.clone()) {
            if end < start {
                gaps.push(end..start);
            }
            end = segment.end;
            Self::note(&mut segment.accesses, access, clock, |other| {
                race(other, start..end)
            });
            alone &= segment.accesses.len() == 1;
        }
        if end < range.end {
            gaps.push(end..range.end);
        }
        if alone {
            // The write replaced all earlier accesses, so its range becomes one segment again.
            self.clear(range.clone());
            gaps = vec![range];
        }
        for gap in gaps {
            let accesses = vec![access];
            self.segments.insert(
                gap.start,
                Segment {
                    end: gap.end,
                    accesses,
                },
            );
        }
    }

    /// Compares the new access with every access of one segment, drops accesses that cannot race
    /// any more, and adds the new one.
    ///
    /// An earlier access may go if it happens before the new one, and the new one conflicts with
    /// every access that the earlier one conflicts with. Then a later access that races with the
    /// earlier one also races with the new one.
    #[inline]
    fn note(accesses: &mut Vec<Access>, new: Access, clock: &VectorClock, mut race: impl FnMut(&Access)) {
        accesses.retain(|old| {
            if !clock.covers(old.epoch) {
                if old.kind.conflicts_with(new.kind) {
                    race(old);
                }
                return true;
            }
            new.kind == AccessKind::Read && old.kind == AccessKind::Write
        });
        accesses.push(new);
    }

    /// Makes `at` a border between segments.
    fn split(&mut self, at: u64) {
        if let Some((&start, segment)) = self.segments.range_mut(..at).next_back()
            && segment.end > at
        {
            debug_assert!(start < at, "the range ends before `at`");
            let right = Segment {
                end: segment.end,
                accesses: segment.accesses.clone(),
            };
            segment.end = at;
            self.segments.insert(at, right);
        }
    }

    /// Forgets a range: later accesses are to other memory.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        self.clear(range);
    }

    /// As `forget`, for a range whose ends are both borders.
    fn clear(&mut self, range: Range<u64>) {
        while let Some((&start, _)) = self.segments.range(range.clone()).next() {
            self.segments.remove(&start);
        }
    }

    /// Forgets accesses that happen before `floor`, and calls `kept` with the actor's slot of each
    /// access that stays.
    pub(super) fn collect(&mut self, floor: &VectorClock, mut kept: impl FnMut(u32)) {
        self.segments.retain(|_, segment| {
            segment.accesses.retain(|access| !floor.covers(access.epoch));
            segment.accesses.iter().for_each(|access| kept(access.epoch.slot));
            !segment.accesses.is_empty()
        });
    }
}
