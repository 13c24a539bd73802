//! Threads of a simulated device, in the order of their modelled clocks.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lets one thread go at a time, the one whose clock is behind those of all others.
///
/// A simulated device models when work would run from what was enqueued before it. Were a thread to
/// enqueue its request of 5 ms before another one's of 2 ms, the second would queue behind the
/// first, which no device would do.
#[derive(Debug)]
pub(super) struct Turns {
    clocks: Mutex<Vec<Duration>>,
    changed: Condvar,
}

impl Turns {
    /// For so many threads. None goes before all have come.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            clocks: Mutex::new(vec![Duration::ZERO; threads]),
            changed: Condvar::new(),
        }
    }

    /// The turns of thread number `thread`.
    pub(super) fn of(&self, thread: usize) -> Turn<'_> {
        Turn { turns: self, thread }
    }

    fn set(&self, thread: usize, now: Duration) {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)[thread] = now;
        self.changed.notify_all();
    }
}

/// One thread's turns. Dropped, it holds up no one.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    thread: usize,
}

impl Turn<'_> {
    /// Waits until no other thread's clock is behind `now`, the time of this one's.
    pub(super) fn wait(&self, now: Duration) {
        self.turns.set(self.thread, now);
        let clocks = self.turns.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let others_first = |clocks: &mut Vec<Duration>| {
            let first = (0..clocks.len()).min_by_key(|thread| clocks[*thread]);
            first != Some(self.thread)
        };
        drop(self.turns.changed.wait_while(clocks, others_first));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.set(self.thread, Duration::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_is_behind_goes_first() {
        let turns = Turns::new(3);
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (thread, step_ms) in [5, 2, 3].into_iter().enumerate() {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let turn = turns.of(thread);
                    for step in 1..=4 {
                        let now = Duration::from_millis(step * step_ms);
                        turn.wait(now);
                        order.lock().unwrap().push(now);
                    }
                });
            }
        });
        let order = order.into_inner().unwrap();
        assert!(order.is_sorted() && order.len() == 12, "{order:?}");
    }
}
