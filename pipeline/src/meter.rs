//! Times of stages: how long each stage was busy with each item, by the clock of the host or the
//! device that did the work.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_rt_runtime::Result;
use cuda_rt_runtime::Stream;
use cuda_rt_runtime::{FinishedEvent, TimedEvent};
use cuda_rt_runtime::{Live, StreamTag};

/// The first items, whose times are kept one by one for the advice. Later items count in the sums
/// only.
pub(super) const SAMPLES: u64 = 1024;

/// The times of one stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) items: u64,
    pub(super) busy_ns: u64,
    pub(super) longest_ns: u64,
    /// Start of the first item and end of the last, since the pipeline began.
    pub(super) between_ns: Option<(u64, u64)>,
    /// Items and their durations, in no order.
    pub(super) samples: Vec<(u64, u64)>,
}

impl Tally {
    fn add(&mut self, item: u64, start_ns: u64, end_ns: u64) {
        let duration = end_ns.saturating_sub(start_ns);
        self.busy_ns += duration;
        self.longest_ns = self.longest_ns.max(duration);
        let (first, last) = self.between_ns.unwrap_or((start_ns, end_ns));
        self.between_ns = Some((first.min(start_ns), last.max(end_ns)));
        if item < SAMPLES {
            self.samples.push((item, duration));
        }
    }
}

/// The moment from which all times of a run are counted.
pub(super) struct Epoch<D> {
    pub(super) mark: FinishedEvent<D>,
    /// The same moment on the host's clock, in ns since the run began.
    pub(super) host_ns: u64,
}

/// The two timing events around an item's work on a stream; the stream may not have reached them.
struct Marks<D> {
    item: u64,
    start: TimedEvent<D>,
    end: TimedEvent<D>,
}

/// Times one stage.
///
/// Two events around each piece of work time it. The stage's thread only records them. The last
/// stage reads them when it has seen that an item is done, because the streams have then reached
/// all events of that item. If a stage read its own events, it would make one or two more driver
/// calls for each item, in time that it needs to enqueue work.
pub(super) struct Meter<D> {
    pending: Mutex<VecDeque<Marks<D>>>,
    tally: Mutex<Tally>,
}

/// Locks, with poison ignored: no code panics while it holds one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Live> Meter<D> {
    /// A meter with room for `in_flight` items between this stage and the end, and for all samples.
    /// It never allocates again.
    pub(super) fn new(in_flight: usize) -> Self {
        let tally = Tally {
            samples: Vec::with_capacity(SAMPLES as usize),
            ..Tally::default()
        };
        Self {
            pending: Mutex::new(VecDeque::with_capacity(in_flight)),
            tally: Mutex::new(tally),
        }
    }

    /// Enqueues `work` on an item, between two timing events if the run is timed.
    pub(super) fn around<S: StreamTag<Device = D>, O>(
        &self,
        timed: bool,
        item: u64,
        stream: &Stream<S>,
        work: impl FnOnce() -> Result<O>,
    ) -> Result<O> {
        let output = if timed {
            let start = stream.record_timed_event()?;
            let output = work()?;
            let end = stream.record_timed_event()?;
            lock(&self.pending).push_back(Marks { item, start, end });
            output
        } else {
            work()?
        };
        lock(&self.tally).items += 1;
        Ok(output)
    }

    /// Notes that the host has worked on an item.
    pub(super) fn add(&self, item: u64, start_ns: u64, end_ns: u64) {
        let mut tally = lock(&self.tally);
        tally.items += 1;
        tally.add(item, start_ns, end_ns);
    }

    /// Reads the timing events of all items up to `item`. Their work is over, as a stream runs in
    /// order. Calls `settled` with each item and its times, without a lock held.
    pub(super) fn settle(&self, epoch: &Epoch<D>, item: u64, settled: impl Fn(u64, u64, u64)) -> Result<()> {
        loop {
            let due = {
                let mut pending = lock(&self.pending);
                let due = pending.front().is_some_and(|marks| marks.item <= item);
                due.then(|| pending.pop_front()).flatten()
            };
            let Some(marks) = due else { return Ok(()) };
            let (start, end) = (marks.start.synchronize()?, marks.end.synchronize()?);
            let start_ms = f64::from(start.elapsed_ms_since(&epoch.mark)?);
            // Measured between the two events: far from the epoch, an `f32` holds a time less
            // exactly.
            let ms = f64::from(end.elapsed_ms_since(&start)?);
            let start_ns = epoch.host_ns + (start_ms.max(0.0) * 1e6) as u64;
            let end_ns = start_ns + (ms.max(0.0) * 1e6) as u64;
            lock(&self.tally).add(marks.item, start_ns, end_ns);
            settled(marks.item, start_ns, end_ns);
        }
    }

    pub(super) fn into_tally(self) -> Tally {
        self.tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
