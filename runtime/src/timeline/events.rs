//! Times of the device's work on CUDA: two timing events around each operation.
//!
//! Events are read and go back to their pool as soon as they are reached, a few at a time, so that
//! a long recording holds no more of them than are in flight.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::host_clock::HostClock;
use crate::error::Result;
use crate::order::event_pool::{EventLease, EventPool};
use crate::order::observer::Operation;
use crate::order::stream_ref::{StreamId, StreamRef};
use crate::order::timed_event::{FinishedEvent, TimedEvent};
use crate::tag::Gpu;
use cuda_rt_driver::{DriverResult, RawEvent};
use cuda_rt_simulator::Simulator;

/// All marks of one log are of one device, whose tag says nothing here.
type Tag = Gpu<0>;
type Mark = TimedEvent<Tag>;

/// The marks before and after one operation.
#[derive(Debug)]
pub(super) struct Marks<E = Mark> {
    start: Mark,
    end: E,
}

impl Marks<()> {
    /// Marks the stream; `None` if no event could be had, which is no error of the work that is
    /// timed.
    pub(super) fn start(events: &Arc<EventPool>, at: StreamRef) -> Option<Self> {
        let start = TimedEvent::new(events.record(at, true).ok()?);
        Some(Self { start, end: () })
    }

    pub(super) fn end(self, events: &Arc<EventPool>, at: StreamRef) -> Option<Marks> {
        Some(Marks {
            start: self.start,
            end: TimedEvent::new(events.record(at, true).ok()?),
        })
    }
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    pub(super) operation: Operation,
    /// Start and end, in ns since the log began; `None` while they are not read, or if they can't
    /// be.
    pub(super) times_ns: Option<(u64, u64)>,
}

/// A stream was made to wait: between which of its operations, and for which operation of which
/// stream.
#[derive(Clone, Copy, Debug)]
struct Wait {
    stream: StreamId,
    /// Operations of `stream` before the wait.
    after: usize,
    on: StreamId,
    /// Operations of `on` that the event covers.
    covers: usize,
}

/// What was enqueued, in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    clock: Option<Clock>,
    /// Not reached yet, with their place among the operations of their stream.
    pending: VecDeque<(StreamId, usize, Marks)>,
    /// The operations of each stream.
    logged: HashMap<StreamId, Vec<Logged>>,
    /// What each event last recorded: of which stream, how many operations.
    records: HashMap<RawEvent, (StreamId, usize)>,
    waits: Vec<Wait>,
}

/// Reads marks as times since the first.
#[derive(Debug)]
struct Clock {
    base: FinishedEvent<Tag>,
    base_ns: u64,
}

impl Clock {
    /// A difference of marks is a 32-bit float of ms: beyond this it is coarser than the events
    /// themselves.
    const REBASE_NS: u64 = 250_000_000;

    fn read(&self, mark: &FinishedEvent<Tag>) -> Result<u64> {
        let since_ns = f64::from(mark.elapsed_ms_since(&self.base)?) * 1e6;
        Ok((self.base_ns as f64 + since_ns).max(0.0).round() as u64)
    }

    fn advance(&mut self, to: FinishedEvent<Tag>, ns: u64) {
        if ns >= self.base_ns + Self::REBASE_NS {
            *self = Self {
                base: to,
                base_ns: ns,
            };
        }
    }
}

impl EventLog {
    /// Operations after which the oldest are read.
    const READ_EVERY: usize = 64;

    /// Begins a log on `at`, a stream that is idle; gives the clock of the host whose 0 is the
    /// log's. Blocks for some tens of microseconds.
    pub(super) fn begin(
        events: &Arc<EventPool>,
        at: StreamRef,
        simulator: Option<&Simulator>,
    ) -> DriverResult<(Self, HostClock)> {
        let mut best: Option<(Duration, HostClock, EventLease)> = None;
        // The first pays for the event's creation; the shortest round trip tells the host's time
        // best.
        for _ in 0..5 {
            let (before, now_ns) = (Instant::now(), simulator.map(Simulator::host_now_ns));
            let lease = events.record(at, true)?;
            lease.synchronize()?;
            let took = before.elapsed();
            let clock = match (simulator, now_ns) {
                (Some(simulator), Some(ns)) => {
                    // Modelled calls take what they take: the event stands at the end of its
                    // recording.
                    let record_ns = simulator.config().model.record_call_ns;
                    HostClock::Modelled(simulator.clone(), ns + record_ns)
                }
                _ => HostClock::Real(before + took / 2),
            };
            if best.as_ref().is_none_or(|(least, ..)| took < *least) {
                best = Some((took, clock, lease));
            }
        }
        let (_, host, lease) = best.expect("five were made");
        let clock = Clock {
            base: TimedEvent::new(lease).reached()?,
            base_ns: 0,
        };
        let log = Self {
            clock: Some(clock),
            ..Self::default()
        };
        Ok((log, host))
    }

    fn count(&self, stream: StreamId) -> usize {
        self.logged.get(&stream).map_or(0, Vec::len)
    }

    pub(super) fn operation(&mut self, stream: StreamId, operation: Operation, marks: Option<Marks>) {
        let of_stream = self.logged.entry(stream).or_default();
        of_stream.push(Logged {
            operation,
            times_ns: None,
        });
        if let Some(marks) = marks {
            self.pending.push_back((stream, of_stream.len() - 1, marks));
        }
        if self.pending.len().is_multiple_of(Self::READ_EVERY) {
            self.read_reached();
        }
    }

    pub(super) fn record(&mut self, stream: StreamId, event: RawEvent) {
        self.records.insert(event, (stream, self.count(stream)));
    }

    pub(super) fn wait(&mut self, stream: StreamId, event: RawEvent) {
        if let Some(&(on, covers)) = self.records.get(&event) {
            self.waits.push(Wait {
                stream,
                after: self.count(stream),
                on,
                covers,
            });
        }
    }

    /// Reads the oldest operations, up to one that still runs. Does not block.
    fn read_reached(&mut self) {
        while let Some((stream, index, marks)) = self.pending.pop_front() {
            match marks.end.query() {
                Ok(Ok(end)) => self.read(stream, index, marks.start, end),
                Ok(Err(end)) => {
                    let marks = Marks { end, ..marks };
                    self.pending.push_front((stream, index, marks));
                    return;
                }
                // The device is lost, or will say so to whoever waits for the work itself.
                Err(_) => {}
            }
        }
    }

    /// Reads all that is left. Blocks until it is done.
    pub(super) fn read_all(&mut self) {
        while let Some((stream, index, marks)) = self.pending.pop_front() {
            if let Ok(end) = marks.end.synchronize() {
                self.read(stream, index, marks.start, end);
            }
        }
    }

    fn read(&mut self, stream: StreamId, index: usize, start: Mark, end: FinishedEvent<Tag>) {
        let Some(clock) = &mut self.clock else { return };
        // Recorded before the end in the same stream: reached, so this does not block.
        let times = start
            .synchronize()
            .and_then(|start| Ok((clock.read(&start)?, clock.read(&end)?)));
        if let (Ok((start_ns, end_ns)), Some(of_stream)) = (times, self.logged.get_mut(&stream)) {
            clock.advance(end, end_ns);
            of_stream[index].times_ns = Some((start_ns, end_ns.max(start_ns)));
        }
    }

    /// Gives the operations of a stream their times from elsewhere, in order; false if they are not
    /// as many.
    pub(super) fn time(&mut self, stream: StreamId, times_ns: &[(u64, u64)]) -> bool {
        let Some(of_stream) = self.logged.get_mut(&stream) else {
            return times_ns.is_empty();
        };
        if of_stream.len() != times_ns.len() {
            return false;
        }
        for (logged, times_ns) in of_stream.iter_mut().zip(times_ns) {
            logged.times_ns = Some(*times_ns);
        }
        true
    }

    /// Operations without times.
    pub(super) fn missing(&self) -> u64 {
        let all = self.logged.values().flatten();
        all.filter(|logged| logged.times_ns.is_none()).count() as u64
    }

    /// The operations of one stream, in its order.
    pub(super) fn of_stream(&self, stream: StreamId) -> &[Logged] {
        self.logged.get(&stream).map_or(&[], Vec::as_slice)
    }

    /// The waits that held a stream back: the stream, from when until when in ns, and for which
    /// stream.
    pub(super) fn waits(&self) -> Vec<(StreamId, u64, u64, StreamId)> {
        // Start and end of an operation by its place, if it is there and timed.
        let times = |stream, index: usize| self.of_stream(stream).get(index)?.times_ns;
        let mut reached: HashMap<StreamId, u64> = HashMap::new();
        let mut held = Vec::new();
        for wait in &self.waits {
            let last = wait.covers.checked_sub(1).and_then(|last| times(wait.on, last));
            // Before its first operation a stream that is held back is not told from one that has
            // nothing to do.
            let before = wait
                .after
                .checked_sub(1)
                .and_then(|last| times(wait.stream, last));
            let (Some((_, last_ns)), Some((_, idle_ns))) = (last, before) else {
                continue;
            };
            let next_ns = times(wait.stream, wait.after).map_or(u64::MAX, |(start_ns, _)| start_ns);
            let from = reached.get(&wait.stream).map_or(idle_ns, |ns| idle_ns.max(*ns));
            let until = last_ns.min(next_ns);
            if until > from {
                held.push((wait.stream, from, until, wait.on));
                reached.insert(wait.stream, until);
            }
        }
        held
    }
}
