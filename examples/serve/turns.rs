//! [`Turns`]: runs the threads of a simulated device in the order of their modelled clocks.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lets one thread go at a time: the thread whose clock is the earliest.
///
/// A simulated device models the time of work from the work enqueued before it. If a thread
/// enqueued its request at 5 ms before another thread enqueued a request at 2 ms, the earlier
/// request would queue behind the later one. No real device would do so.
#[derive(Debug)]
pub(super) struct Turns {
    clocks: Mutex<Vec<Duration>>,
    changed: Condvar,
}

impl Turns {
    /// Turns for `threads` threads. No thread goes on before all have arrived.
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

/// One thread's turns. After the drop, other threads no longer wait for this thread.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    thread: usize,
}

impl Turn<'_> {
    /// Blocks until no other thread's clock is behind `now`, this thread's time.
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
    fn the_thread_with_the_earliest_clock_goes_first() {
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
