//! Modelled time: when each operation would run on the engines of a real device.
//!
//! An operation's times follow from the work that it waits for, and all of this work was enqueued
//! earlier. The times are therefore computed when the operation is enqueued. They do not depend on
//! the order in which the simulated device happens to run operations.
//!
//! A time that would overflow stays at the largest value: a model or a host may take any number of
//! ns, and time must not make a half-made call fail.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use super::config::{Model, SimConfig};
use cuda_rt_driver::Engine;
use cuda_rt_driver::RawStream;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// A copy from host to device.
    CopyToDevice,
    /// A copy from device to host.
    CopyToHost,
    /// A copy within the device.
    Copy,
    /// A copy between two devices.
    CopyPeer,
    /// A rank's part in a collective.
    Collective,
    /// A fill.
    Fill,
    /// A kernel.
    Kernel,
}

/// One operation that ran, at modelled times.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// The kind of operation.
    pub kind: SpanKind,
    /// The kernel's name, or a name for the kind of copy or fill.
    pub label: &'static str,
    /// The stream that it ran in.
    pub stream: RawStream,
    /// The engine that it ran on.
    pub engine: Engine,
    /// Start, in modelled ns since the device was made.
    pub start_ns: u64,
    /// End, in modelled ns since the device was made.
    pub end_ns: u64,
    /// Bytes copied, filled, or touched by the kernel.
    pub bytes: u64,
}

/// A stream held back by an event of another stream, at modelled times.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The stream that waited.
    pub stream: RawStream,
    /// The stream that recorded the event.
    pub waits_for: RawStream,
    /// Start of the wait, when the stream had nothing else to do, in modelled ns since the device
    /// was made.
    pub start_ns: u64,
    /// The time of the event, in modelled ns since the device was made.
    pub end_ns: u64,
}

/// The load that an operation puts on an engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) kind: SpanKind,
    pub(super) label: &'static str,
    pub(super) bytes: u64,
    /// Threads of a kernel; 0 for other work.
    pub(super) threads: u64,
}

impl Work {
    fn engine(&self) -> Engine {
        match self.kind {
            SpanKind::CopyToDevice => Engine::ToDevice,
            SpanKind::CopyToHost => Engine::ToHost,
            SpanKind::CopyPeer | SpanKind::Collective => Engine::Peer,
            SpanKind::Copy | SpanKind::Fill | SpanKind::Kernel => Engine::Compute,
        }
    }

    /// The number of parts that the work takes of its engine, and the number of parts of the
    /// engine.
    fn parts(&self, config: &SimConfig) -> (usize, usize) {
        let all = config.model.kernel_parts.max(1);
        let threads = match self.kind {
            SpanKind::CopyToDevice | SpanKind::CopyToHost | SpanKind::CopyPeer | SpanKind::Collective => {
                return (1, 1);
            }
            // These run as kernels that move 16 bytes a thread.
            SpanKind::Copy | SpanKind::Fill => self.bytes / 16,
            SpanKind::Kernel => self.threads,
        };
        let filled = u128::from(threads) * all as u128;
        let parts = filled.div_ceil(u128::from(Model::RESIDENT_THREADS));
        (parts.clamp(1, all as u128) as usize, all)
    }

    fn duration_ns(&self, config: &SimConfig) -> u64 {
        let model = &config.model;
        let bytes = self.bytes as f64;
        match self.kind {
            SpanKind::CopyToDevice => model
                .copy_latency_ns
                .saturating_add((bytes / model.to_device_gb_per_s) as u64),
            SpanKind::CopyToHost => model
                .copy_latency_ns
                .saturating_add((bytes / model.to_host_gb_per_s) as u64),
            SpanKind::Copy => model
                .kernel_floor_ns
                .saturating_add((2.0 * bytes / model.device_gb_per_s) as u64),
            SpanKind::CopyPeer | SpanKind::Collective => model
                .copy_latency_ns
                .saturating_add((bytes / config.peer_gb_per_s()) as u64),
            SpanKind::Fill => model
                .kernel_floor_ns
                .saturating_add((bytes / model.device_gb_per_s) as u64),
            SpanKind::Kernel => {
                let threads = self.threads as f64;
                let given = config
                    .kernel_times
                    .iter()
                    .rev()
                    .find(|(name, _)| name == self.label);
                let ns = match given {
                    Some((_, ns_per_thread)) => threads * ns_per_thread,
                    None => (threads * model.kernel_ns_per_thread).max(bytes / model.device_gb_per_s),
                };
                model.kernel_floor_ns.saturating_add(ns as u64)
            }
        }
    }
}

/// The modelled clocks of the host's threads and of the engines of each device.
#[derive(Debug, Default)]
pub(super) struct Clock {
    hosts: Hosts,
    devices: Vec<Engines>,
}

/// The engines of one device.
#[derive(Debug, Default)]
pub(super) struct Engines {
    /// The parts of each engine, made at its first use.
    timelines: [Vec<Timeline>; Engine::COUNT],
    busy_ns: [u64; Engine::COUNT],
    /// Spans of operations, each with the operation's place in its stream; `None` while nothing is
    /// recorded.
    pub(super) spans: Option<Vec<(u64, Span)>>,
    /// Waits that hold a stream back, while spans are recorded.
    pub(super) waits: Vec<Wait>,
}

impl Clock {
    pub(super) fn add_device(&mut self) {
        self.devices.push(Engines::default());
    }

    /// The calling thread's clock, in ns.
    pub(super) fn now_ns(&mut self) -> u64 {
        *self.hosts.current()
    }

    /// Makes the calling thread busy for `ns`.
    ///
    /// CLOCK-1. No time overflows: a clock at its end stays there.
    pub(super) fn spend(&mut self, ns: u64) {
        let now = self.hosts.current();
        *now = now.saturating_add(ns);
    }

    /// Makes the calling thread wait until `ns`.
    pub(super) fn wait_until(&mut self, ns: u64) {
        let now = self.hosts.current();
        *now = (*now).max(ns);
    }

    /// Runs `work` on `device`, from `ready_ns` at the earliest. Returns its end.
    pub(super) fn run(
        &mut self,
        config: &SimConfig,
        device: usize,
        work: &Work,
        ready_ns: u64,
        (stream, at): (RawStream, u64),
    ) -> u64 {
        let engine = work.engine();
        let duration = work.duration_ns(config);
        let (parts, all) = work.parts(config);
        let engines = &mut self.devices[device];
        let lines = &mut engines.timelines[engine as usize];
        lines.resize_with(all, Timeline::default);
        let start_ns = book_parts(lines, parts, ready_ns, duration);
        let end_ns = start_ns.saturating_add(duration);
        let share = u128::from(duration) * parts as u128 / all as u128;
        let busy_ns = &mut engines.busy_ns[engine as usize];
        // At most `duration`, because `parts` is at most `all`.
        *busy_ns = busy_ns.saturating_add(share as u64);
        if let Some(spans) = &mut engines.spans {
            let Work {
                kind, label, bytes, ..
            } = *work;
            spans.push((
                at,
                Span {
                    kind,
                    label,
                    stream,
                    engine,
                    start_ns,
                    end_ns,
                    bytes,
                },
            ));
        }
        end_ns
    }

    /// Makes `stream` of `device` wait for an event of the stream `on`, at `end_ns`.
    pub(super) fn hold(
        &mut self,
        device: usize,
        stream: RawStream,
        on: RawStream,
        start_ns: u64,
        end_ns: u64,
    ) {
        let engines = &mut self.devices[device];
        if engines.spans.is_some() && start_ns < end_ns {
            engines.waits.push(Wait {
                stream,
                waits_for: on,
                start_ns,
                end_ns,
            });
        }
    }

    /// The engines of one device.
    pub(super) fn device(&mut self, device: usize) -> &mut Engines {
        &mut self.devices[device]
    }

    pub(super) fn busy_ns(&self, device: usize, engine: Engine) -> u64 {
        self.devices[device].busy_ns[engine as usize]
    }
}

/// Books the first time of length `duration` from `ready` on in which `parts` of `lines` are free.
/// Returns its start.
fn book_parts(lines: &mut [Timeline], parts: usize, ready: u64, duration: u64) -> u64 {
    if let [line] = lines {
        return line.book(ready, duration);
    }
    let mut start = ready;
    loop {
        let mut free: Vec<(u64, usize)> = (lines.iter().enumerate())
            .map(|(i, line)| (line.earliest(start, duration), i))
            .collect();
        free.sort_unstable();
        let free = &free[..parts];
        let (first, last) = (free[0].0, free[parts - 1].0);
        if first == last {
            for &(at, i) in free {
                lines[i].book(at, duration);
            }
            return last;
        }
        // Start when the last of them is free; the others may no longer be free then.
        start = last;
    }
}

/// The busy times of one engine, or of one part: busy until `end` except in some gaps, free after
/// it.
#[derive(Debug, Default)]
struct Timeline {
    /// Disjoint, ascending.
    gaps: VecDeque<(u64, u64)>,
    end: u64,
}

impl Timeline {
    /// Number of gaps that are remembered. Beyond this the oldest gap counts as busy, so memory
    /// stays bounded.
    const GAPS: usize = 64;

    /// The start of the first free time of length `duration` from `ready` on.
    fn earliest(&self, ready: u64, duration: u64) -> u64 {
        let first = self.first_long_enough(ready, duration);
        let fits = self.gaps.iter().skip(first).find_map(|&(from, to)| {
            let start = from.max(ready);
            (start.saturating_add(duration) <= to).then_some(start)
        });
        fits.unwrap_or_else(|| self.end.max(ready))
    }

    /// The first gap that ends late enough to hold `duration` from `ready` on.
    fn first_long_enough(&self, ready: u64, duration: u64) -> usize {
        let end = ready.saturating_add(duration);
        self.gaps.partition_point(|gap| gap.1 < end)
    }

    /// Books the first free time of length `duration` from `ready` on. Returns its start.
    fn book(&mut self, ready: u64, duration: u64) -> u64 {
        let first = self.first_long_enough(ready, duration);
        for i in first..self.gaps.len() {
            let (from, to) = self.gaps[i];
            let start = from.max(ready);
            let end = start.saturating_add(duration);
            if end > to {
                continue;
            }
            self.gaps.remove(i);
            if end < to {
                self.gaps.insert(i, (end, to));
            }
            if from < start {
                self.gaps.insert(i, (from, start));
            }
            self.trim();
            return start;
        }
        let start = self.end.max(ready);
        if start > self.end {
            self.gaps.push_back((self.end, start));
            self.trim();
        }
        self.end = start.saturating_add(duration);
        start
    }

    fn trim(&mut self) {
        while self.gaps.len() > Self::GAPS {
            self.gaps.pop_front();
        }
    }
}

/// A clock for each thread of the host.
///
/// A new thread starts at the latest clock of all threads: the thread that started it had reached
/// some time by then. A start that is too late can hide an overlap, but never invents one.
#[derive(Debug, Default)]
struct Hosts {
    current: (u64, u64),
    others: HashMap<u64, u64>,
    latest: u64,
}

impl Hosts {
    /// Number of threads that are remembered; beyond it, all threads move to the latest time.
    const THREADS: usize = 1024;

    fn current(&mut self) -> &mut u64 {
        let thread = thread_number();
        if self.current.0 != thread {
            self.latest = self.latest.max(self.current.1);
            if self.others.len() >= Self::THREADS {
                self.others.clear();
            }
            self.others.insert(self.current.0, self.current.1);
            self.current = (thread, self.others.remove(&thread).unwrap_or(self.latest));
        }
        &mut self.current.1
    }
}

/// A number for the calling thread that no other thread of the process has or had; never 0.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static NUMBER: Cell<u64> = const { Cell::new(0) });
    // A thread whose locals are destroyed shares one number with others like it: the number only
    // selects a clock.
    NUMBER
        .try_with(|number| {
            if number.get() == 0 {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_and_never_booked_twice() {
        let mut line = Timeline::default();
        assert_eq!(line.book(100, 10), 100);
        assert_eq!(line.book(0, 30), 0, "before what was booked first");
        assert_eq!(line.book(20, 80), 110, "the gap of 70 is too small");
        assert_eq!(line.book(20, 70), 30, "and just large enough for this");
        assert_eq!(line.book(0, 1), 190);
        assert!(line.gaps.is_empty(), "{line:?}");
    }

    #[test]
    fn small_kernels_run_side_by_side_and_large_ones_alone() {
        let mut lines: Vec<Timeline> = std::iter::repeat_with(Timeline::default).take(4).collect();
        let mut book = |parts, ready| book_parts(&mut lines, parts, ready, 10);
        assert_eq!([book(1, 0), book(2, 0), book(1, 5)], [0, 0, 5]);
        assert_eq!(book(2, 0), 10, "two parts are free from 10 on, one from 15");
        assert_eq!(book(4, 0), 20, "all");
        assert_eq!(book(1, 0), 10, "the gap that was left");
        assert_eq!(book(1, 0), 30, "15 to 20 is too short");
    }

    #[test]
    fn where_an_engine_is_free_is_where_it_books() {
        let mut line = Timeline::default();
        let mut random = super::super::random::Random::new(5);
        for _ in 0..2000 {
            let (ready, duration) = (random.below(4000) as u64, 1 + random.below(30) as u64);
            let expected = line.earliest(ready, duration);
            assert_eq!(line.book(ready, duration), expected, "{line:?}");
        }
    }

    #[test]
    fn memory_of_a_timeline_is_bounded() {
        let mut line = Timeline::default();
        for i in 0..10_000 {
            line.book(i * 100, 10);
        }
        assert_eq!(line.gaps.len(), Timeline::GAPS);
    }

    #[test]
    fn times_stop_at_the_largest() {
        let mut clock = Clock::default();
        clock.add_device();
        clock.spend(u64::MAX - 1);
        clock.spend(u64::MAX);
        assert_eq!(clock.now_ns(), u64::MAX);
        let mut config = SimConfig::new();
        for (parts, floor_ns) in [(1, 5), (8, 5), (1, u64::MAX), (8, u64::MAX)] {
            config.model.kernel_parts = parts;
            config.model.kernel_floor_ns = floor_ns;
            config.model.copy_latency_ns = floor_ns;
            for kind in [
                SpanKind::Kernel,
                SpanKind::Copy,
                SpanKind::CopyToHost,
                SpanKind::CopyPeer,
            ] {
                for (ready_ns, threads) in [(0, 1), (u64::MAX - 1, u64::MAX), (u64::MAX, 1 << 20)] {
                    let (label, bytes) = ("work", u64::MAX);
                    let work = Work {
                        kind,
                        label,
                        bytes,
                        threads,
                    };
                    let end_ns = clock.run(&config, 0, &work, ready_ns, (RawStream(1), 0));
                    assert!(end_ns >= ready_ns, "{work:?}");
                }
            }
        }
        assert_eq!(clock.busy_ns(0, Engine::Compute), u64::MAX);
    }

    #[test]
    fn each_thread_has_a_clock() {
        let mut clock = Clock::default();
        clock.spend(5);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(clock.now_ns(), 5, "starts no earlier than who started it");
                clock.wait_until(50);
            });
        });
        assert_eq!(clock.now_ns(), 5);
    }
}
