//! [`EventLog`]: times of a device's work from two timing events around each operation.
//!
//! Finished events are read and returned to their pool during the recording, a few at a time. So a
//! long recording holds only about as many events as are in flight.

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

/// All marks of one log are of one device, so any tag serves.
type Tag = Gpu<0>;
type Mark = TimedEvent<Tag>;

/// The marks before and after one operation.
#[derive(Debug)]
pub(super) struct Marks<E = Mark> {
    start: Mark,
    end: E,
}

impl Marks<()> {
    /// Marks the stream. `None` if no event could be recorded, which is no error of the timed work.
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
    /// Start and end, in ns since the log began. `None` until they are read, or if they cannot be
    /// read.
    pub(super) times_ns: Option<(u64, u64)>,
}

/// A wait of one stream for another: its place among the operations of both streams.
#[derive(Clone, Copy, Debug)]
struct Wait {
    stream: StreamId,
    /// Operations of `stream` before the wait.
    after: usize,
    on: StreamId,
    /// Operations of `on` that the event covers.
    covers: usize,
}

/// The enqueued operations, records and waits, in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    clock: Option<Clock>,
    /// Marks not read yet, with their stream and the index of the operation in it.
    pending: VecDeque<(StreamId, usize, Marks)>,
    /// The operations of each stream.
    logged: HashMap<StreamId, Vec<Logged>>,
    /// The last record of each event: its stream, and the number of operations before it.
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
    /// CUDA returns the difference of two events as a 32-bit float of ms. Beyond this difference
    /// the float is coarser than the events.
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
    /// The number of pending operations after which the log reads the oldest.
    const READ_EVERY: usize = 64;

    /// Begins a log on the idle stream `at`. Also returns a host clock with the same zero. Blocks
    /// the host for some tens of microseconds.
    pub(super) fn begin(
        events: &Arc<EventPool>,
        at: StreamRef,
        simulator: Option<&Simulator>,
    ) -> DriverResult<(Self, HostClock)> {
        let mut best: Option<(Duration, HostClock, EventLease)> = None;
        // The first round also creates the event. The shortest round trip gives the most exact host
        // time.
        for _ in 0..5 {
            let (before, now_ns) = (Instant::now(), simulator.map(Simulator::host_now_ns));
            let lease = events.record(at, true)?;
            lease.synchronize()?;
            let took = before.elapsed();
            let clock = match (simulator, now_ns) {
                (Some(simulator), Some(ns)) => {
                    // The model adds the duration of the call: the event is at the end of its
                    // record.
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

    /// Reads the oldest operations, up to the first that still runs. Does not block.
    fn read_reached(&mut self) {
        while let Some((stream, index, marks)) = self.pending.pop_front() {
            match marks.end.query() {
                Ok(Ok(end)) => self.read(stream, index, marks.start, end),
                Ok(Err(end)) => {
                    let marks = Marks { end, ..marks };
                    self.pending.push_front((stream, index, marks));
                    return;
                }
                // A wait for the work itself will return this error.
                Err(_) => {}
            }
        }
    }

    /// Reads all pending operations. Blocks the host until they are done.
    pub(super) fn read_all(&mut self) {
        while let Some((stream, index, marks)) = self.pending.pop_front() {
            if let Ok(end) = marks.end.synchronize() {
                self.read(stream, index, marks.start, end);
            }
        }
    }

    fn read(&mut self, stream: StreamId, index: usize, start: Mark, end: FinishedEvent<Tag>) {
        let Some(clock) = &mut self.clock else { return };
        // The start was recorded before the end in the same stream, so it is done, and this does
        // not block.
        let times = start
            .synchronize()
            .and_then(|start| Ok((clock.read(&start)?, clock.read(&end)?)));
        if let (Ok((start_ns, end_ns)), Some(of_stream)) = (times, self.logged.get_mut(&stream)) {
            clock.advance(end, end_ns);
            of_stream[index].times_ns = Some((start_ns, end_ns.max(start_ns)));
        }
    }

    /// Sets the times of a stream's operations, in order. False if the numbers of times and
    /// operations differ.
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

    /// The waits that held a stream back: the waiting stream, start and end in ns, and the other
    /// stream.
    pub(super) fn waits(&self) -> Vec<(StreamId, u64, u64, StreamId)> {
        // Start and end of a stream's operation, if it exists and has times.
        let times = |stream, index: usize| self.of_stream(stream).get(index)?.times_ns;
        let mut reached: HashMap<StreamId, u64> = HashMap::new();
        let mut held = Vec::new();
        for wait in &self.waits {
            let last = wait.covers.checked_sub(1).and_then(|last| times(wait.on, last));
            // Before its first operation a waiting stream looks like an idle stream, so the wait is
            // left out.
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
