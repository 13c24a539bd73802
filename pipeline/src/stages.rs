//! The loops that a pipeline's threads run: one for each kind of stage.
//!
//! One thread enqueues the work of each stream, and that thread never waits for the GPU. It waits
//! for an item and for a slot, and gets both when the neighbour has *enqueued* its part. Only the
//! two ends wait until work is done: the source before it overwrites pinned memory, and the sink
//! before it reads pinned memory. So a slow sink delays no upload, and two buffers keep every stage
//! busy. If a single thread enqueued all work, then while it waits for a download it could not
//! enqueue the upload that might run at the same time.
//!
//! Each closure of the user runs in [`without_children`]: see `Task::execute`.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};

use super::error::{BoxError, Cause};
use super::order::InOrder;
use super::ring::{Ring, SlotGuard};
use super::run::{Context, Failed};
use cuda_rt_runtime::Result;
use cuda_rt_runtime::Stream;
use cuda_rt_runtime::TimedEvent;
use cuda_rt_runtime::driver::process::without_children;
use cuda_rt_runtime::{Bundle, PinnedBuffer};
use cuda_rt_runtime::{Idle, Live, StreamTag};

/// An item on its way between two stages.
pub(super) struct Arrival<I, R: Bundle> {
    pub(super) index: u64,
    pub(super) item: I,
    /// Number of elements that the item fills of its buffer.
    pub(super) len: usize,
    pub(super) slot: SlotGuard<R>,
    pub(super) sent_ns: u64,
}

pub(super) type Inbox<I, R> = Receiver<Arrival<I, R>>;
pub(super) type Outbox<I, R> = SyncSender<Arrival<I, R>>;

fn receive<D: Live, I, R: Bundle>(context: &Context<'_, D>, inbox: &Inbox<I, R>) -> Option<Arrival<I, R>> {
    let arrival = inbox.recv().ok()?;
    context.clock.catch_up(arrival.sent_ns);
    context.at(arrival.index);
    Some(arrival)
}

/// Like [`receive`], from an inbox that several sinks share.
fn receive_shared<D: Live, I, R: Bundle>(
    context: &Context<'_, D>,
    inbox: &Mutex<Inbox<I, R>>,
) -> Option<Arrival<I, R>> {
    // Nothing that panics happens under the lock.
    receive(context, &inbox.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Sends an item to the next stage. Returns false if that stage has ended.
fn send<D: Live, I, R: Bundle>(
    context: &Context<'_, D>,
    outbox: &Outbox<I, R>,
    (index, item, len): (u64, I, usize),
    slot: SlotGuard<R>,
) -> bool {
    let sent_ns = context.clock.now_ns();
    let arrival = Arrival {
        index,
        item,
        len,
        slot,
        sent_ns,
    };
    outbox.send(arrival).is_ok()
}

pub(super) fn at_most(len: usize, capacity: usize) -> Result<usize, Cause> {
    if len > capacity {
        return Err(Cause::TooLong { len, capacity });
    }
    Ok(len)
}

/// The number of elements that a stage's closure says it made, if they fit in a buffer.
fn made_len<D: Live>(
    context: &Context<'_, D>,
    made: Result<usize>,
    capacity: usize,
) -> Result<usize, Failed> {
    made.map_err(Cause::Device)
        .and_then(|len| at_most(len, capacity))
        .map_err(|cause| context.fail(cause))
}

/// Fills pinned memory until the input or the pipeline ends.
pub(super) fn source<D: Live, I, T>(
    context: &Context<'_, D>,
    ring: &Ring<PinnedBuffer<T, Idle<D>>>,
    outbox: Outbox<I, PinnedBuffer<T, Idle<D>>>,
    mut next: impl FnMut(&mut [T]) -> Result<Option<(I, usize)>, BoxError>,
) -> Result<(), Failed> {
    for index in 0_u64.. {
        let mut slot = ring.take();
        if context.halted() {
            break;
        }
        context.at(index);
        let filled = slot.host(|buffer| -> Result<_, Cause> {
            let _scope = context.scope();
            let started = context.clock.now_ns();
            let next = without_children(|| next(buffer));
            let Some((item, len)) = next.map_err(Cause::Host)? else {
                return Ok(None);
            };
            context.worked(index, started);
            Ok(Some((item, at_most(len, buffer.len())?)))
        });
        // This waits for the upload that last used the slot.
        let filled = filled
            .map_err(|error| context.fail_at(1, index.saturating_sub(ring.slots() as u64), error))?
            .map_err(|cause| context.fail(cause))?;
        let Some((item, len)) = filled else { break };
        if !send(context, &outbox, (index, item, len), slot) {
            break;
        }
    }
    Ok(())
}

/// Fills device memory until the input or the pipeline ends.
pub(super) fn generate<D: Live, S: StreamTag<Device = D>, I, R: Bundle<Device = D>>(
    context: &Context<'_, D>,
    stream: &Stream<S>,
    mut items: impl Iterator<Item = I>,
    (ring, capacity): (&Ring<R>, usize),
    outbox: Outbox<I, R>,
    mut body: impl FnMut(&Stream<S>, &I, &mut R::On<S>) -> Result<usize>,
) -> Result<(), Failed> {
    for index in 0_u64.. {
        let mut slot = ring.take();
        if context.halted() {
            break;
        }
        context.at(index);
        let Some(item) = without_children(|| items.next()) else {
            break;
        };
        let made = slot
            .on(stream, |output| {
                context.around(index, stream, || body(stream, &item, output))
            })
            .flatten();
        let len = made_len(context, made, capacity)?;
        if !send(context, &outbox, (index, item, len), slot) {
            break;
        }
    }
    Ok(())
}

/// Moves items from one buffer to another on one stream: uploads, kernels, downloads.
pub(super) fn transform<D: Live, S, I, R, Q>(
    context: &Context<'_, D>,
    stream: &Stream<S>,
    inbox: Inbox<I, R>,
    (ring, capacity): (&Ring<Q>, usize),
    outbox: Outbox<I, Q>,
    mut body: impl FnMut(&Stream<S>, &I, usize, &R::On<S>, &mut Q::On<S>) -> Result<usize>,
) -> Result<(), Failed>
where
    S: StreamTag<Device = D>,
    R: Bundle<Device = D>,
    Q: Bundle<Device = D>,
{
    while let Some(arrival) = receive(context, &inbox) {
        let Arrival {
            index,
            item,
            len,
            slot: mut from,
            ..
        } = arrival;
        let mut to = ring.take();
        let made = from
            .on(stream, |input| {
                to.on(stream, |output| {
                    context.around(index, stream, || body(stream, &item, len, input, output))
                })
            })
            .flatten()
            .flatten();
        // Return the input's slot before the item goes on, so that the slot's next user does not
        // wait for the stages behind.
        drop(from);
        let len = made_len(context, made, capacity)?;
        if !send(context, &outbox, (index, item, len), to) {
            break;
        }
    }
    Ok(())
}

/// Changes items in their buffer, on one stream; the slot goes on to the next stage.
pub(super) fn in_place<D: Live, S: StreamTag<Device = D>, I, R: Bundle<Device = D>>(
    context: &Context<'_, D>,
    stream: &Stream<S>,
    inbox: Inbox<I, R>,
    outbox: Outbox<I, R>,
    mut body: impl FnMut(&Stream<S>, &I, usize, &mut R::On<S>) -> Result<()>,
) -> Result<(), Failed> {
    while let Some(mut arrival) = receive(context, &inbox) {
        let Arrival {
            index,
            item,
            len,
            slot,
            sent_ns,
        } = &mut arrival;
        slot.on(stream, |data| {
            context.around(*index, stream, || body(stream, item, *len, data))
        })
        .flatten()
        .map_err(|error| context.fail(error))?;
        *sent_ns = context.clock.now_ns();
        if outbox.send(arrival).is_err() {
            break;
        }
    }
    Ok(())
}

/// Reads pinned memory. Several sinks may share an inbox.
pub(super) fn sink<D: Live, I, T>(
    context: &Context<'_, D>,
    inbox: &Mutex<Inbox<I, PinnedBuffer<T, Idle<D>>>>,
    mut body: impl FnMut(I, &[T]) -> Result<(), BoxError>,
) -> Result<(), Failed> {
    while let Some(Arrival {
        index,
        item,
        len,
        mut slot,
        ..
    }) = receive_shared(context, inbox)
    {
        let read = slot.host(|buffer| {
            let _scope = context.scope();
            let started = context.clock.now_ns();
            let read = without_children(|| body(item, &buffer[..len]));
            context.worked(index, started);
            read
        });
        // This waits for the download.
        let read = read.map_err(|error| context.fail_at(-1, index, error))?;
        read.map_err(|error| context.fail(Cause::Host(error)))?;
        // Return the slot before times are read, so that the next download can use it meanwhile.
        drop(slot);
        context.finished(index)?;
    }
    Ok(())
}

/// Reads pinned memory beside other workers, and finishes its items in order with theirs.
pub(super) fn sink_in_order<D: Live, I, T, O, F: FnMut(O) -> Result<(), BoxError>>(
    context: &Context<'_, D>,
    inbox: &Mutex<Inbox<I, PinnedBuffer<T, Idle<D>>>>,
    work: impl Fn(I, &[T]) -> Result<O, BoxError>,
    order: &InOrder<F>,
) -> Result<(), Failed> {
    while let Some(Arrival {
        index,
        item,
        len,
        mut slot,
        ..
    }) = receive_shared(context, inbox)
    {
        let Some(ticket) = order.ticket(index) else {
            return Ok(());
        };
        let worked = slot.host(|buffer| {
            let _scope = context.scope();
            let started = context.clock.now_ns();
            let worked = without_children(|| work(item, &buffer[..len]));
            (worked, context.clock.now_ns() - started)
        });
        // This waits for the download.
        let (result, work_ns) = worked.map_err(|error| context.fail_at(-1, index, error))?;
        let result = result.map_err(|error| context.fail(Cause::Host(error)))?;
        // Return the slot before the wait, so that the next download can use it meanwhile.
        drop(slot);
        let finished = ticket.finish(&context.clock, |finish| {
            let _scope = context.scope();
            let started = context.clock.now_ns();
            without_children(|| finish(result))?;
            // The wait for earlier items does not count as work.
            context.worked(index, started - work_ns.min(started));
            Ok(())
        });
        match finished {
            Some(finished) => finished.map_err(|error| context.fail(Cause::Host(error)))?,
            None => return Ok(()),
        }
        context.finished(index)?;
    }
    Ok(())
}

/// Reads device memory on one stream, at most `ahead` items ahead of the GPU.
pub(super) fn consume<D: Live, S: StreamTag<Device = D>, I, R: Bundle<Device = D>>(
    context: &Context<'_, D>,
    stream: &Stream<S>,
    inbox: Inbox<I, R>,
    ahead: usize,
    mut body: impl FnMut(&Stream<S>, I, usize, &R::On<S>) -> Result<()>,
) -> Result<(), Failed> {
    let mut ends = VecDeque::with_capacity(ahead + 1);
    let wait = |(index, end): (u64, TimedEvent<D>)| {
        end.synchronize()
            .map_err(|error| context.fail_at(0, index, error))?;
        context.finished(index)
    };
    while let Some(Arrival {
        index,
        item,
        len,
        mut slot,
        ..
    }) = receive(context, &inbox)
    {
        slot.on(stream, |input| {
            context.around(index, stream, || body(stream, item, len, input))
        })
        .flatten()
        .map_err(|error| context.fail(error))?;
        drop(slot);
        ends.push_back((
            index,
            stream.record_timed_event().map_err(|error| context.fail(error))?,
        ));
        // Without this wait, nothing limits how far the host runs ahead in a pipeline that ends on
        // the device.
        if ends.len() > ahead
            && let Some(oldest) = ends.pop_front()
        {
            wait(oldest)?;
        }
    }
    ends.into_iter().try_for_each(wait)
}
