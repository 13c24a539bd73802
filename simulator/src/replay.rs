//! [`Replay`]: the nodes of a launched graph that have run, and those that may run next.

use super::random::Random;

/// A launch of a graph that has begun.
#[derive(Debug)]
pub(super) struct Replay {
    /// For each node, the number of nodes that it still comes after.
    blockers: Vec<usize>,
    successors: Vec<Vec<usize>>,
    /// The nodes that may run next.
    ready: Vec<usize>,
    /// The node whose host function runs now.
    pub(super) running: Option<usize>,
}

impl Replay {
    /// A launch of nodes; `after` says which nodes each comes after.
    pub(super) fn of<'a>(after: impl ExactSizeIterator<Item = &'a [usize]>) -> Self {
        let mut successors = vec![Vec::new(); after.len()];
        let mut blockers = Vec::with_capacity(after.len());
        for (i, after) in after.enumerate() {
            after.iter().for_each(|before| successors[*before].push(i));
            blockers.push(after.len());
        }
        let ready = (0..blockers.len()).filter(|i| blockers[*i] == 0).collect();
        Self {
            blockers,
            successors,
            ready,
            running: None,
        }
    }

    /// Takes one of the nodes that may run next.
    pub(super) fn choose(&mut self, random: &mut Random) -> Option<usize> {
        let ready = self.ready.len();
        (ready > 0).then(|| self.ready.swap_remove(random.below(ready)))
    }

    /// The node `i` has run.
    pub(super) fn ran(&mut self, i: usize) {
        for &next in &self.successors[i] {
            self.blockers[next] -= 1;
            if self.blockers[next] == 0 {
                self.ready.push(next);
            }
        }
    }

    /// The host function that ran has ended.
    pub(super) fn host_function_ended(&mut self) {
        if let Some(i) = self.running.take() {
            self.ran(i);
        }
    }
}
