//! [`InOrder`]: lets workers run side by side and finish their items in order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::clock::HostClock;

struct State<F> {
    /// The item whose turn it is.
    next: u64,
    /// The first item that will never be finished; later items are given up.
    failed: u64,
    /// When the last item was finished, on the modelled clock.
    finished_ns: u64,
    finish: F,
}

/// State that the workers of an ordered sink share: the item whose turn it is, and the closure that
/// finishes it.
///
/// Items are numbered without gaps, and a worker takes an item before any worker takes a later one.
/// So the item that the other workers wait for always has a worker, until its [`Ticket`] is
/// finished or dropped.
pub(super) struct InOrder<F> {
    state: Mutex<State<F>>,
    moved: Condvar,
}

impl<F> InOrder<F> {
    pub(super) fn new(finish: F) -> Self {
        Self {
            state: Mutex::new(State {
                next: 0,
                failed: u64::MAX,
                finished_ns: 0,
                finish,
            }),
            moved: Condvar::new(),
        }
    }

    /// Takes the item's place in the order; `None` if an earlier item has failed.
    pub(super) fn ticket(&self, item: u64) -> Option<Ticket<'_, F>> {
        if self.lock().failed <= item {
            return None;
        }
        Some(Ticket {
            order: self,
            item,
            finished: false,
        })
    }

    /// `finish` may panic under the lock. Its item has then failed, so `finish` is not called
    /// again.
    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One item's place in the order. If it is dropped before the item is finished, the order ends at
/// this item.
pub(super) struct Ticket<'a, F> {
    order: &'a InOrder<F>,
    item: u64,
    finished: bool,
}

impl<F> Ticket<'_, F> {
    /// Waits for all earlier items, and runs `body` with the closure that finishes items. Returns
    /// `None`, without running `body`, if an earlier item failed. If `body` fails, the item has
    /// failed.
    pub(super) fn finish<O, E>(
        mut self,
        clock: &HostClock,
        body: impl FnOnce(&mut F) -> Result<O, E>,
    ) -> Option<Result<O, E>> {
        let mut state = self.order.lock();
        while state.next < self.item && self.item < state.failed {
            state = self
                .order
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed <= self.item {
            return None;
        }
        clock.catch_up(state.finished_ns);
        let outcome = body(&mut state.finish);
        if outcome.is_ok() {
            state.next += 1;
            state.finished_ns = clock.now_ns();
            self.finished = true;
        }
        drop(state);
        self.order.moved.notify_all();
        Some(outcome)
    }
}

impl<F> Drop for Ticket<'_, F> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut state = self.order.lock();
        state.failed = state.failed.min(self.item);
        drop(state);
        self.order.moved.notify_all();
    }
}
