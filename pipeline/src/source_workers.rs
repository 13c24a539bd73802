//! [`SourceWorkers`]: lets several threads fill pinned memory side by side, and sends the items on
//! in order.
//!
//! ```text
//!   Feed, one worker at a time            each worker              Outgoing, a lock for moments
//!   slot + index + item from `next` ──▶ waits for the last ──▶ keeps the item until all earlier
//!                                       upload, and fills       items are sent
//! ```
//!
//! A worker takes a slot before an index, so each index that was given out has a slot. The worker
//! of the earliest unsent item therefore never waits for a slot, and all slots that wait behind its
//! item become free in the end.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::{BoxError, Cause};
use super::ring::{Ring, SlotGuard};
use super::run::{Context, Failed, Rings};
use super::stages::{Arrival, Outbox, at_most};
use cuda_rt_runtime::driver::process::without_children;
use cuda_rt_runtime::{Bundle, Idle, Live, PinnedBuffer};

/// What the workers of one source share.
pub(super) struct SourceWorkers<I, R: Bundle, N> {
    feed: Mutex<Feed<R, N>>,
    outgoing: Mutex<Outgoing<I, R>>,
}

/// Slots and items, each of which one worker gets.
struct Feed<R: Bundle, N> {
    /// `None` after the first worker has ended.
    ring: Option<Ring<R>>,
    slots: u64,
    next: N,
    /// Index of the next item.
    index: u64,
    /// When the last item was found, on the modelled clock.
    found_ns: u64,
    /// Whether `next` has found the end, has failed or has panicked. It is not called again.
    ended: bool,
}

/// Items that are filled, and the end to which they go in order.
struct Outgoing<I, R: Bundle> {
    /// Index of the next item to send.
    next: u64,
    /// The first item that will never be sent; later items are given up.
    failed: u64,
    /// Item `next + k` at place `k`, if it is filled.
    waiting: VecDeque<Option<Arrival<I, R>>>,
    outbox: Outbox<I, R>,
}

/// Locks, with poison ignored: [`Feed::ended`] is set before the one call that may panic, and
/// nothing panics under the other lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<I, R: Bundle<Device: Live>, N: FnMut() -> Result<Option<I>, BoxError>> SourceWorkers<I, R, N> {
    pub(super) fn new(ring: Ring<R>, next: N, outbox: Outbox<I, R>) -> Self {
        let slots = ring.slots();
        Self {
            feed: Mutex::new(Feed {
                ring: Some(ring),
                slots: slots as u64,
                next,
                index: 0,
                found_ns: 0,
                ended: false,
            }),
            outgoing: Mutex::new(Outgoing {
                next: 0,
                failed: u64::MAX,
                waiting: VecDeque::with_capacity(slots),
                outbox,
            }),
        }
    }

    /// Keeps the ring until all threads have ended. The workers then take no further item.
    pub(super) fn keep_ring<'env>(&self, rings: &Rings<'env>)
    where
        R: Send + 'env,
        Ring<R>: Send,
    {
        if let Some(ring) = lock(&self.feed).ring.take() {
            rings.keep(ring);
        }
    }

    /// Takes a slot and the next item. `None` at the end, and after a failure.
    fn take<'a, D: Live>(&'a self, context: &Context<'_, D>) -> Result<Option<Taken<'a, I, R>>, Failed> {
        let mut feed = lock(&self.feed);
        if feed.ended {
            return Ok(None);
        }
        let Some(ring) = &feed.ring else {
            return Ok(None);
        };
        let slot = ring.take();
        if context.halted() || lock(&self.outgoing).failed != u64::MAX {
            return Ok(None);
        }
        let index = feed.index;
        context.at(index);
        context.clock.catch_up(feed.found_ns);
        let started = context.clock.now_ns();
        feed.ended = true;
        let _scope = context.scope();
        let found = without_children(&mut feed.next).map_err(|error| context.fail(Cause::Host(error)))?;
        let Some(item) = found else {
            return Ok(None);
        };
        feed.ended = false;
        feed.index += 1;
        feed.found_ns = context.clock.now_ns();
        Ok(Some(Taken {
            place: Place {
                outgoing: &self.outgoing,
                index,
                sent: false,
            },
            slot,
            item,
            find_ns: feed.found_ns - started,
            last_user: index.saturating_sub(feed.slots),
        }))
    }
}

/// An item that one worker is to fill, and its slot.
struct Taken<'a, I, R: Bundle> {
    place: Place<'a, I, R>,
    slot: SlotGuard<R>,
    item: I,
    /// How long it took to find the item.
    find_ns: u64,
    /// The item that used the slot before.
    last_user: u64,
}

/// One item's place in the order. If it is dropped before the item is sent, the order ends at this
/// item.
struct Place<'a, I, R: Bundle> {
    outgoing: &'a Mutex<Outgoing<I, R>>,
    index: u64,
    sent: bool,
}

impl<I, R: Bundle> Place<'_, I, R> {
    /// Sends the item when all earlier items are sent: now, or by the worker that sends the last of
    /// them. Never waits. Returns false if no item can be sent any more.
    fn send(mut self, arrival: Arrival<I, R>) -> bool {
        let mut outgoing = lock(self.outgoing);
        self.sent = true;
        if outgoing.failed <= self.index {
            // Items have destructors of their own: none runs under the lock.
            drop(outgoing);
            return false;
        }
        let at = (self.index - outgoing.next) as usize;
        if outgoing.waiting.len() <= at {
            outgoing.waiting.resize_with(at + 1, || None);
        }
        outgoing.waiting[at] = Some(arrival);
        while let Some(Some(_)) = outgoing.waiting.front() {
            let Some(Some(arrival)) = outgoing.waiting.pop_front() else {
                break;
            };
            outgoing.next += 1;
            // The channel has room for every slot, so this does not wait.
            let refused = outgoing.outbox.send(arrival);
            if refused.is_err() {
                // The next stage has ended. Items have destructors of their own: none runs under
                // the lock.
                outgoing.failed = outgoing.next;
                drop(outgoing);
                return false;
            }
        }
        true
    }
}

impl<I, R: Bundle> Drop for Place<'_, I, R> {
    fn drop(&mut self) {
        if self.sent {
            return;
        }
        let mut outgoing = lock(self.outgoing);
        outgoing.failed = outgoing.failed.min(self.index);
    }
}

impl<D: Live, I, T, N> SourceWorkers<I, PinnedBuffer<T, Idle<D>>, N>
where
    PinnedBuffer<T, Idle<D>>: Bundle<Device = D> + std::ops::DerefMut<Target = [T]>,
    N: FnMut() -> Result<Option<I>, BoxError>,
{
    /// Fills pinned memory, as one of the workers, until the input or the pipeline ends.
    pub(super) fn run(
        &self,
        context: &Context<'_, D>,
        fill: impl Fn(&mut I, &mut [T]) -> Result<usize, BoxError>,
    ) -> Result<(), Failed> {
        while let Some(taken) = self.take(context)? {
            // The place is bound last, so it is dropped first: after a failure, the slot returns
            // when the failure is known. All other slots may wait with later items, which are not
            // sent any more. Each worker that takes this slot then ends, and returns it for the
            // next.
            let Taken {
                mut slot,
                mut item,
                find_ns,
                last_user,
                place,
            } = taken;
            let index = place.index;
            let filled = slot.host(|buffer| -> Result<_, Cause> {
                let _scope = context.scope();
                let started = context.clock.now_ns();
                let len = without_children(|| fill(&mut item, buffer)).map_err(Cause::Host)?;
                // The wait for the slot does not count as work.
                context.worked(index, started - find_ns.min(started));
                at_most(len, buffer.len())
            });
            // This waits for the upload that last used the slot.
            let len = filled
                .map_err(|error| context.fail_at(1, last_user, error))?
                .map_err(|cause| context.fail(cause))?;
            let sent_ns = context.clock.now_ns();
            let arrival = Arrival {
                index,
                item,
                len,
                slot,
                sent_ns,
            };
            if !place.send(arrival) {
                break;
            }
        }
        Ok(())
    }
}
