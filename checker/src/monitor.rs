//! [`Monitor`]: CUDA's ordering rules for the operations of a driver. The rules cover non-blocking
//! streams, events, stream-ordered memory and captures.

use std::collections::HashMap;
use std::ops::Range;

use crate::VectorClock;
use crate::{ActorId, Checker};
use cuda_rt_driver::AccessKind;
use cuda_rt_driver::Operation;
use cuda_rt_driver::{ActorKind, Race};

/// Follows the driver calls of one host's devices. It is told each call after the call succeeded,
/// in the order of the calls.
///
/// All host threads are one actor; see [the module](super).
#[derive(Debug)]
pub(crate) struct Monitor {
    checker: Checker,
    host: ActorId,
    streams: HashMap<u64, Stream>,
    events: HashMap<u64, Record>,
    /// Lengths in bytes of the blocks in use, by address.
    blocks: HashMap<u64, u64>,
    /// Lengths in bytes of managed and write-combined memory in use, by address.
    host_allocations: HashMap<u64, u64>,
    captures: HashMap<u64, Capture>,
    captures_begun: u64,
    graphs: HashMap<u64, Graph>,
    /// Races inside captures: they would happen at every launch.
    captured_races: Vec<Race>,
    seed: Option<u64>,
    /// The footprint (ranges, actors) at which the next collection runs.
    collect_at: (usize, usize),
}

#[derive(Debug)]
struct Stream {
    actor: ActorId,
    name: Box<str>,
    capture: Option<Member>,
}

/// A stream's part in a capture.
#[derive(Clone, Copy, Debug)]
struct Member {
    capture: u64,
    actor: ActorId,
}

#[derive(Debug)]
struct Record {
    /// The capture in which the event was recorded. The clocks of a capture are its own.
    capture: Option<u64>,
    clock: VectorClock,
}

/// The recording of a capture: checked within itself as it grows, and kept for the launches.
#[derive(Debug)]
struct Capture {
    origin: u64,
    checker: Checker,
    touched: Vec<Touched>,
    blocks: HashMap<u64, u64>,
    /// Number of operations that have begun.
    operations: u64,
    /// The latest operation of each stream.
    latest: HashMap<u64, u64>,
    /// The operation behind each node that the program asked for.
    nodes: HashMap<u64, u64>,
}

#[derive(Clone, Debug)]
struct Touched {
    /// The operation of the capture that makes the access.
    by: u64,
    bytes: Range<u64>,
    kind: AccessKind,
    operation: Operation,
}

#[derive(Debug)]
struct Graph {
    touched: Vec<Touched>,
    nodes: HashMap<u64, u64>,
    /// The clock of the last launch: two launches of one graph never overlap.
    last: VectorClock,
}

/// An operation that has begun; its accesses follow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begun {
    Running(ActorId),
    /// In a capture: the capture, the actor, and the number of the operation.
    Captured(u64, ActorId, u64),
    /// On a stream whose creation was not seen.
    Unknown,
}

impl Monitor {
    /// Below this footprint (ranges, actors) no collection runs.
    const SMALL: (usize, usize) = (4096, 64);

    pub(crate) fn new(seed: Option<u64>) -> Self {
        let mut checker = Checker::new(seed);
        let host = checker.actor(ActorKind::HostThread, "host");
        Self {
            checker,
            host,
            seed,
            streams: HashMap::new(),
            events: HashMap::new(),
            blocks: HashMap::new(),
            host_allocations: HashMap::new(),
            captures: HashMap::new(),
            captures_begun: 0,
            graphs: HashMap::new(),
            captured_races: Vec::new(),
            collect_at: Self::SMALL,
        }
    }

    pub(crate) fn races(&self) -> Vec<Race> {
        let inside = self.captures.values().flat_map(|capture| capture.checker.races());
        [self.checker.races(), &self.captured_races]
            .concat()
            .into_iter()
            .chain(inside.cloned())
            .collect()
    }

    /// Number of races found so far, repetitions included; it grows with each race.
    pub(crate) fn races_found(&self) -> u64 {
        let inside = self
            .captures
            .values()
            .map(|capture| capture.checker.races_found());
        self.checker.races_found() + self.captured_races.len() as u64 + inside.sum::<u64>()
    }

    pub(crate) fn footprint(&self) -> (usize, usize) {
        self.checker.footprint()
    }

    pub(crate) fn create_stream(&mut self, stream: u64) {
        let name: Box<str> = format!("{stream:#x}").into();
        let actor = self.checker.actor(ActorKind::CudaStream, name.clone());
        self.streams.insert(
            stream,
            Stream {
                actor,
                name,
                capture: None,
            },
        );
    }

    pub(crate) fn name_stream(&mut self, stream: u64, name: &str) {
        if let Some(stream) = self.streams.get_mut(&stream)
            && *stream.name != *name
        {
            stream.name = name.into();
            self.checker.rename(stream.actor, name);
        }
    }

    pub(crate) fn destroy_stream(&mut self, stream: u64) {
        if let Some(stream) = self.streams.remove(&stream) {
            self.checker.retire(stream.actor);
        }
    }

    /// Starts the stream's next operation: after the call, and after the stream's earlier work.
    #[inline]
    pub(crate) fn begin(&mut self, stream: u64) -> Begun {
        let Some(Stream { actor, capture, .. }) = self.streams.get(&stream) else {
            return Begun::Unknown;
        };
        if let Some(Member { capture, actor }) = *capture
            && let Some(recorded) = self.captures.get_mut(&capture)
        {
            recorded.checker.step(actor);
            recorded.operations += 1;
            recorded.latest.insert(stream, recorded.operations);
            return Begun::Captured(capture, actor, recorded.operations);
        }
        let actor = *actor;
        self.checker.step(self.host);
        self.checker.wait_event(actor, self.host);
        self.checker.step(actor);
        Begun::Running(actor)
    }

    /// An access of an operation that has begun.
    #[inline]
    pub(crate) fn access(&mut self, begun: Begun, bytes: Range<u64>, kind: AccessKind, operation: Operation) {
        match begun {
            Begun::Running(actor) => {
                self.checker.access(actor, bytes, kind, operation);
            }
            Begun::Captured(capture, actor, by) => {
                if let Some(capture) = self.captures.get_mut(&capture) {
                    capture.checker.access(actor, bytes.clone(), kind, operation);
                    capture.touched.push(Touched {
                        by,
                        bytes,
                        kind,
                        operation,
                    });
                }
            }
            Begun::Unknown => {}
        }
    }

    /// The host touches memory that it shares with the device.
    pub(crate) fn host_access(&mut self, bytes: Range<u64>, kind: AccessKind, operation: Operation) {
        self.checker.step(self.host);
        self.checker.access(self.host, bytes, kind, operation);
    }

    /// Host memory is page-locked anew: earlier accesses there were to other memory.
    pub(crate) fn register(&mut self, bytes: Range<u64>) {
        self.checker.forget(bytes);
    }

    /// Memory of another owner arrives. In a block of this device its accesses are known, and count
    /// on: the owner must have ordered them. Elsewhere earlier accesses were to other memory.
    pub(crate) fn adopt(&mut self, bytes: Range<u64>) {
        let holds = |(start, len): (&u64, &u64)| *start <= bytes.start && bytes.end <= start + len;
        if !self.blocks.iter().any(holds) {
            self.register(bytes);
        }
    }

    /// Host memory is released: the release counts as a write, so it races with pending work.
    pub(crate) fn unregister(&mut self, bytes: Range<u64>, operation: Operation) {
        self.host_access(bytes.clone(), AccessKind::Write, operation);
        self.checker.forget(bytes);
    }

    /// Memory that the host reaches is allocated: earlier accesses there were to other memory.
    pub(crate) fn alloc_host(&mut self, bytes: Range<u64>) {
        self.host_allocations.insert(bytes.start, bytes.end - bytes.start);
        self.checker.forget(bytes);
    }

    /// Memory that the host reaches is freed: the free counts as a write of the host.
    pub(crate) fn free_host(&mut self, address: u64, operation: Operation) {
        if let Some(bytes) = self.host_allocations.remove(&address) {
            self.unregister(address..address + bytes, operation);
        }
    }

    pub(crate) fn alloc(&mut self, address: u64, bytes: u64, stream: u64, operation: Operation) {
        let range = address..address + bytes;
        // The driver gives out only memory that nothing else uses, in an order that the driver
        // knows.
        self.checker.forget(range.clone());
        let begun = self.begin(stream);
        let blocks = match begun {
            Begun::Captured(capture, ..) => match self.captures.get_mut(&capture) {
                Some(capture) => {
                    capture.checker.forget(range.clone());
                    &mut capture.blocks
                }
                None => return,
            },
            _ => &mut self.blocks,
        };
        blocks.insert(address, bytes);
        self.access(begun, range, AccessKind::Write, operation);
        self.collect_now_and_then();
    }

    pub(crate) fn free(&mut self, address: u64, stream: u64, operation: Operation) {
        let begun = self.begin(stream);
        let blocks = match begun {
            Begun::Captured(capture, ..) => {
                self.captures.get_mut(&capture).map(|capture| &mut capture.blocks)
            }
            _ => Some(&mut self.blocks),
        };
        if let Some(bytes) = blocks.and_then(|blocks| blocks.remove(&address)) {
            self.access(begun, address..address + bytes, AccessKind::Write, operation);
        }
    }

    /// An allocated block is free for its next owner from here on, or has its next owner. Earlier
    /// accesses are not forgotten: the caller, and not the driver, must have ordered the owners.
    pub(crate) fn note_owner(&mut self, address: u64, stream: u64, operation: Operation) {
        let begun = self.begin(stream);
        if let Some(bytes) = self.blocks.get(&address).copied() {
            self.access(begun, address..address + bytes, AccessKind::Write, operation);
        }
        self.collect_now_and_then();
    }

    #[inline]
    pub(crate) fn record_event(&mut self, event: u64, stream: u64) {
        let (capture, clock) = match self.begin(stream) {
            Begun::Running(actor) => (None, self.checker.clock(actor)),
            Begun::Captured(capture, actor, _) => {
                (Some(capture), self.captures[&capture].checker.clock(actor))
            }
            Begun::Unknown => return,
        };
        match self.events.get_mut(&event) {
            Some(record) => {
                record.capture = capture;
                record.clock.assign(clock);
            }
            None => {
                let clock = clock.clone();
                self.events.insert(event, Record { capture, clock });
            }
        }
    }

    pub(crate) fn destroy_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    #[inline]
    pub(crate) fn wait_event(&mut self, stream: u64, event: u64) {
        let Some(record) = self.events.get(&event) else {
            return;
        };
        let Some(at) = self.streams.get_mut(&stream) else {
            return;
        };
        let Some(capture) = record.capture else {
            self.checker.step(self.host);
            self.checker.wait_event(at.actor, self.host);
            self.checker.wait(at.actor, &record.clock);
            return;
        };
        let Some(recorded) = self.captures.get_mut(&capture) else {
            return;
        };
        let name = &at.name;
        let member = at.capture.get_or_insert_with(|| Member {
            capture,
            actor: recorded.checker.actor(ActorKind::CudaStream, name.clone()),
        });
        if member.capture == capture {
            recorded.checker.wait(member.actor, &record.clock);
        }
    }

    /// What the host knows to be done after it has waited for the stream.
    pub(crate) fn stream_contents(&self, stream: u64) -> VectorClock {
        self.streams
            .get(&stream)
            .map_or_else(VectorClock::default, |stream| {
                self.checker.clock(stream.actor).clone()
            })
    }

    /// What the host knows to be done after it has waited for the event, or has seen its query
    /// succeed.
    pub(crate) fn event_contents(&self, event: u64) -> VectorClock {
        let record = self.events.get(&event).filter(|record| record.capture.is_none());
        record.map_or_else(VectorClock::default, |record| record.clock.clone())
    }

    /// The host has waited for `contents`.
    pub(crate) fn seen_done(&mut self, contents: &VectorClock) {
        self.checker.wait(self.host, contents);
        self.collect_now_and_then();
    }

    pub(crate) fn begin_capture(&mut self, stream: u64) {
        let Some(at) = self.streams.get_mut(&stream) else {
            return;
        };
        self.captures_begun += 1;
        let mut checker = Checker::new(self.seed);
        let actor = checker.actor(ActorKind::CudaStream, at.name.clone());
        at.capture = Some(Member {
            capture: self.captures_begun,
            actor,
        });
        self.captures.insert(
            self.captures_begun,
            Capture {
                origin: stream,
                checker,
                touched: Vec::new(),
                blocks: HashMap::new(),
                operations: 0,
                latest: HashMap::new(),
                nodes: HashMap::new(),
            },
        );
    }

    /// The latest operation of a captured stream became `node`.
    pub(crate) fn captured_node(&mut self, stream: u64, node: u64) {
        if let Some(Member { capture, .. }) = self.streams.get(&stream).and_then(|s| s.capture)
            && let Some(capture) = self.captures.get_mut(&capture)
            && let Some(operation) = capture.latest.get(&stream)
        {
            capture.nodes.insert(node, *operation);
        }
    }

    /// The capture of `stream` ended, with a graph if it succeeded.
    pub(crate) fn end_capture(&mut self, stream: u64, graph: Option<u64>) {
        if let (Some(Capture { touched, nodes, .. }), Some(graph)) = (self.finish_capture(stream), graph) {
            let last = VectorClock::default();
            self.graphs.insert(graph, Graph { touched, nodes, last });
        }
    }

    /// The capture of `stream` ended. If that succeeded, later launches of `graph` replay it.
    pub(crate) fn update_graph(&mut self, stream: u64, graph: Option<u64>) {
        if let (Some(recorded), Some(graph)) = (self.finish_capture(stream), graph)
            && let Some(graph) = self.graphs.get_mut(&graph)
        {
            // The recording came from the same calls in the same order, so operations and nodes
            // keep their numbers.
            graph.touched = recorded.touched;
        }
    }

    /// Later launches of `graph` make other accesses at `node`. Removes the old accesses, and
    /// returns the operation that takes the new ones.
    pub(crate) fn set_launch(&mut self, graph: u64, node: u64) -> Option<u64> {
        let graph = self.graphs.get_mut(&graph)?;
        let by = *graph.nodes.get(&node)?;
        graph.touched.retain(|touched| touched.by != by);
        Some(by)
    }

    /// An access that later launches of `graph` make.
    pub(crate) fn access_of_graph(
        &mut self,
        graph: u64,
        by: u64,
        bytes: Range<u64>,
        kind: AccessKind,
        operation: Operation,
    ) {
        if let Some(graph) = self.graphs.get_mut(&graph) {
            graph.touched.push(Touched {
                by,
                bytes,
                kind,
                operation,
            });
        }
    }

    fn finish_capture(&mut self, stream: u64) -> Option<Capture> {
        let id = self.streams.get(&stream)?.capture?.capture;
        if self.captures.get(&id)?.origin != stream {
            return None;
        }
        let capture = self.captures.remove(&id)?;
        for stream in self.streams.values_mut() {
            stream.capture = stream.capture.filter(|member| member.capture != id);
        }
        self.captured_races.extend_from_slice(capture.checker.races());
        Some(capture)
    }

    pub(crate) fn launch_graph(&mut self, graph: u64, stream: u64) {
        let begun = self.begin(stream);
        let Some(Graph { touched, last, .. }) = self.graphs.get(&graph) else {
            return;
        };
        let touched = touched.clone();
        if let Begun::Running(actor) = begun {
            self.checker.wait(actor, last);
        }
        for Touched {
            bytes,
            kind,
            operation,
            ..
        } in touched
        {
            self.access(begun, bytes, kind, operation);
        }
        if let (Begun::Running(actor), Some(graph)) = (begun, self.graphs.get_mut(&graph)) {
            graph.last.assign(self.checker.clock(actor));
        }
    }

    pub(crate) fn destroy_graph(&mut self, graph: u64) {
        self.graphs.remove(&graph);
    }

    /// Forgets accesses that cannot race any more: all calls still to come are made by the host,
    /// after everything that the host has seen done.
    fn collect_now_and_then(&mut self) {
        let (ranges, actors) = self.checker.footprint();
        if ranges < self.collect_at.0 && actors < self.collect_at.1 {
            return;
        }
        let floor = self.checker.clock(self.host).clone();
        self.checker.collect(&floor);
        // The next collection comes at twice the remaining footprint, which spreads its work over
        // the operations that fill the other half.
        let (ranges, actors) = self.checker.footprint();
        self.collect_at = (Self::SMALL.0.max(2 * ranges), Self::SMALL.1.max(2 * actors));
    }
}
