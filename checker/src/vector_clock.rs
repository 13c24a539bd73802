//! Vector clocks: how much of every actor's work happens before a point.

/// One step of one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) slot: u32,
    pub(super) at: u64,
}

/// For each actor, how many of its steps happen before a point (Lamport 1978; Fidge 1988; Mattern
/// 1989).
///
/// ```
/// use cuda_rt_checker::{AccessKind, ActorKind, Checker, Operation, Site, VectorClock};
///
/// let mut checker = Checker::new(None);
/// let streams = ["a", "b"].map(|name| checker.actor(ActorKind::CudaStream, name));
/// let host = checker.actor(ActorKind::HostThread, "main");
/// let at = |name| Operation { name, site: Site::Unknown };
/// let mut done = VectorClock::default();
/// for (stream, start) in streams.into_iter().zip([0, 64]) {
///     checker.step(stream);
///     checker.access(stream, start..start + 64, AccessKind::Write, at("download"));
///     done.join(checker.clock(stream)); // everything before either stream's present step
/// }
/// checker.wait(host, &done);
/// checker.step(host);
/// assert!(!checker.access(host, 0..128, AccessKind::Read, at("read"))); // behind both
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorClock(Vec<u64>);

impl VectorClock {
    /// Whether the step happens before this point.
    #[inline]
    pub(super) fn covers(&self, epoch: Epoch) -> bool {
        self.get(epoch.slot) >= epoch.at
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> u64 {
        self.0.get(slot as usize).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn set(&mut self, slot: u32, at: u64) {
        let slot = slot as usize;
        if self.0.len() <= slot {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] = at;
    }

    /// Joins the clock with `other`: everything before either point is now before this one.
    #[inline]
    pub fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// Copies `other` into this clock's memory.
    pub(super) fn assign(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_covers_what_either_side_covers() {
        let (mut a, mut b) = (VectorClock::default(), VectorClock::default());
        a.set(0, 3);
        b.set(2, 5);
        assert!(!a.covers(Epoch { slot: 2, at: 1 }), "never heard of");
        a.join(&b);
        assert!(a.covers(Epoch { slot: 0, at: 3 }) && a.covers(Epoch { slot: 2, at: 5 }));
        assert!(!a.covers(Epoch { slot: 0, at: 4 }) && !a.covers(Epoch { slot: 2, at: 6 }));
    }
}
