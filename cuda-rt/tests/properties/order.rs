//! Finds the calls of a log that race, by brute force: every edge of CUDA's rules is drawn one by
//! one, and races are found by reachability over the graph.
//!
//! The module shares nothing with the checker. It has no clocks and forgets nothing. An operation
//! gets an edge from everything that its stream, its call and its waits put before it, and every
//! pair of accesses is examined.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use cuda_rt::checker::AccessKind;
use cuda_rt::checker::AccessKind::{Read, Write};

use crate::log::{Call, Life, Log, Touch};

pub(crate) type Node = usize;

/// An operation, a step of the host, or only a place in a stream.
#[derive(Debug)]
pub(crate) struct Info {
    /// The entry in the log.
    pub(crate) entry: usize,
    world: World,
    touches: Vec<(usize, Touch)>,
    /// All nodes before this one, as bits.
    before: Vec<u64>,
}

/// The scope of races: the work of all devices, or of one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum World {
    Devices,
    Capture(usize),
}

#[derive(Debug, Default)]
struct Stream {
    last: Option<Node>,
    /// The stream's capture, and its last node there.
    capture: Option<(usize, Option<Node>)>,
}

/// The graph of a log, with at most one entry left out.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) nodes: Vec<Info>,
    host: Option<Node>,
    streams: HashMap<u64, Stream>,
    events: HashMap<u64, (World, Node)>,
    /// The origin stream of each capture.
    captures: Vec<u64>,
    /// The accesses of the launches, by captured entry, and the last launch.
    graphs: HashMap<u64, (World, Vec<(usize, Touch)>, Option<Node>)>,
    /// The capture that each graph was made from.
    pub(crate) launched: HashMap<Node, World>,
    /// The entries outside captures that make or use an edge: records, waits of streams, and waits
    /// and queries of the host. Each with whether it orders nothing new.
    pub(crate) edges: Vec<(usize, bool)>,
    /// The nodes of records that take no time.
    records: BTreeSet<Node>,
    timing: BTreeSet<u64>,
}

/// One side of a race as a report names it: the entry, and its access to the bytes.
pub(crate) type Side = (usize, bool);

/// Two unordered accesses to the same bytes, at least one of them a write. The access called first
/// comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Conflict {
    pub(crate) first: Node,
    pub(crate) second: Node,
    /// The pair as the checker should report it.
    pub(crate) report: (Side, Side),
    /// Whether the checker must report it: on some byte no later access hides it; see `hidden`.
    pub(crate) reported: bool,
}

impl Order {
    pub(crate) fn of(log: &Log, left_out: Option<usize>) -> Self {
        let mut order = Self::default();
        for (i, entry) in log.entries.iter().enumerate() {
            if Some(i) != left_out {
                order.entry(log, i, &entry.call);
            }
        }
        order
    }

    pub(crate) fn is_before(&self, a: Node, b: Node) -> bool {
        self.nodes[b]
            .before
            .get(a / 64)
            .is_some_and(|word| word >> (a % 64) & 1 == 1)
    }

    /// Whether `node` is before the next operation of the stream, or of the host.
    fn is_before_next(&self, node: Node, stream: Option<u64>) -> bool {
        let stream = stream.and_then(|stream| self.streams.get(&stream)?.last);
        let mut last = stream.into_iter().chain(self.host);
        last.any(|last| last == node || self.is_before(node, last))
    }

    fn is_captured(&self, stream: u64) -> bool {
        self.streams
            .get(&stream)
            .is_some_and(|stream| stream.capture.is_some())
    }

    /// Notes an edge before it is made.
    fn edge(&mut self, entry: usize, call: &Call) {
        let redundant = match call {
            Call::Record { event, stream } if !self.is_captured(*stream) && !self.timing.contains(event) => {
                let last = self.streams.get(stream).and_then(|stream| stream.last);
                last.is_some_and(|last| self.records.contains(&last))
            }
            Call::Wait { stream, event } if !self.is_captured(*stream) => match self.events.get(event) {
                Some((World::Devices, node)) => self.is_before_next(*node, Some(*stream)),
                _ => return,
            },
            Call::SeenDone(event) | Call::SynchronizeEvent(event) => match self.events.get(event) {
                Some((World::Devices, node)) => self.is_before_next(*node, None),
                _ => return,
            },
            _ => return,
        };
        self.edges.push((entry, redundant));
    }

    fn node(
        &mut self,
        entry: usize,
        world: World,
        after: impl IntoIterator<Item = Node>,
        touches: Vec<Touch>,
    ) -> Node {
        let mut before = vec![0; self.nodes.len().div_ceil(64)];
        for node in after {
            before[node / 64] |= 1 << (node % 64);
            for (word, earlier) in before.iter_mut().zip(&self.nodes[node].before) {
                *word |= earlier;
            }
        }
        let touches = touches.into_iter().map(|touch| (entry, touch)).collect();
        self.nodes.push(Info {
            entry,
            world,
            touches,
            before,
        });
        self.nodes.len() - 1
    }

    /// Adds the host's next step.
    fn host(&mut self, entry: usize, after: Option<Node>, touches: Vec<Touch>) {
        let after = self.host.into_iter().chain(after);
        self.host = Some(self.node(entry, World::Devices, after, touches));
    }

    /// Adds a stream's next operation: after the stream's contents and after the call; in a capture
    /// only after the stream's contents.
    fn operation(
        &mut self,
        entry: usize,
        stream: u64,
        after: Option<Node>,
        touches: Vec<Touch>,
    ) -> (World, Node) {
        if let Some((capture, last)) = self.streams.entry(stream).or_default().capture {
            let world = World::Capture(capture);
            let node = self.node(entry, world, last.into_iter().chain(after), touches);
            self.streams.entry(stream).or_default().capture = Some((capture, Some(node)));
            return (world, node);
        }
        self.host(entry, None, Vec::new());
        let after: Vec<Node> = self.streams[&stream]
            .last
            .into_iter()
            .chain(self.host)
            .chain(after)
            .collect();
        let world = World::Devices;
        let node = self.node(entry, world, after, touches);
        self.streams.entry(stream).or_default().last = Some(node);
        (world, node)
    }

    fn entry(&mut self, log: &Log, i: usize, call: &Call) {
        let touches = log.touches(call);
        self.edge(i, call);
        match call {
            Call::Alloc { stream, .. }
            | Call::Free { stream, .. }
            | Call::NoteFree { stream, .. }
            | Call::NoteAlloc { stream, .. }
            | Call::Copy { stream, .. }
            | Call::CopyRows { stream, .. }
            | Call::CopyPeer { stream, .. }
            | Call::Prefetch { stream, .. }
            | Call::Fill { stream, .. }
            | Call::Launch { stream, .. } => {
                self.operation(i, *stream, None, touches);
            }
            Call::Record { event, stream } => {
                let at = self.operation(i, *stream, None, touches);
                if !self.timing.contains(event) {
                    self.records.insert(at.1);
                }
                self.events.insert(*event, at);
            }
            Call::Wait { stream, event } => match self.events.get(event).copied() {
                None => {}
                Some((World::Devices, node)) => {
                    self.operation(i, *stream, Some(node), touches);
                }
                Some((World::Capture(capture), node)) => {
                    self.streams
                        .entry(*stream)
                        .or_default()
                        .capture
                        .get_or_insert((capture, None));
                    self.operation(i, *stream, Some(node), touches);
                }
            },
            Call::SeenDone(event) | Call::SynchronizeEvent(event) => {
                if let Some((World::Devices, node)) = self.events.get(event).copied() {
                    self.host(i, Some(node), touches);
                }
            }
            Call::SynchronizeStream(stream) | Call::SeenStreamDone(stream) => {
                let last = self.streams.get(stream).and_then(|stream| stream.last);
                self.host(i, last, touches);
            }
            Call::Unregister(_)
            | Call::FreeManaged(_)
            | Call::HostWrote { .. }
            | Call::HostSees { .. }
            | Call::HostReads { .. } => self.host(i, None, touches),
            Call::BeginCapture(stream) => {
                self.captures.push(*stream);
                self.streams.entry(*stream).or_default().capture = Some((self.captures.len() - 1, None));
            }
            Call::EndCapture { stream, graph } => {
                let Some((capture, _)) = self.streams.get(stream).and_then(|stream| stream.capture) else {
                    return;
                };
                let world = World::Capture(capture);
                let inside = self.nodes.iter().filter(|node| node.world == world);
                let touched = inside.flat_map(|node| node.touches.iter().cloned()).collect();
                self.graphs.insert(*graph, (world, touched, None));
                for stream in self.streams.values_mut() {
                    stream.capture = stream.capture.filter(|(other, _)| *other != capture);
                }
            }
            Call::LaunchGraph { graph, stream } => {
                let (world, touched, last) = self.graphs.get(graph).cloned().expect("it was captured");
                let (_, node) = self.operation(i, *stream, last, Vec::new());
                self.nodes[node].touches = touched;
                self.launched.insert(node, world);
                self.graphs.get_mut(graph).expect("found above").2 = Some(node);
            }
            Call::CreateEvent { event, timing } => {
                if *timing {
                    self.timing.insert(*event);
                }
            }
            Call::CreateStream(_)
            | Call::DestroyStream(_)
            | Call::DestroyEvent(_)
            | Call::Register(_)
            | Call::AllocManaged(_)
            | Call::DestroyGraph(_) => {}
        }
    }

    /// All pairs of accesses that conflict and are not ordered.
    pub(crate) fn conflicts(&self) -> BTreeSet<Conflict> {
        let mut accesses: HashMap<(World, Life), Vec<Access<'_>>> = HashMap::new();
        for (node, info) in self.nodes.iter().enumerate() {
            for (entry, touch) in &info.touches {
                let access = Access {
                    node,
                    entry: *entry,
                    kind: touch.kind,
                    bytes: &touch.bytes,
                };
                accesses.entry((info.world, touch.life)).or_default().push(access);
            }
        }
        let mut conflicts = BTreeSet::new();
        for accesses in accesses.values() {
            for (j, second) in accesses.iter().enumerate() {
                for (i, first) in accesses[..j].iter().enumerate() {
                    let both =
                        first.bytes.start.max(second.bytes.start)..first.bytes.end.min(second.bytes.end);
                    let conflict = (first.kind == Write || second.kind == Write) && both.start < both.end;
                    if conflict && first.node != second.node && !self.is_before(first.node, second.node) {
                        conflicts.insert(Conflict {
                            first: first.node,
                            second: second.node,
                            report: (first.side(), second.side()),
                            reported: !self.hidden(first, &accesses[i + 1..j], both),
                        });
                    }
                }
            }
        }
        conflicts
    }

    /// Whether a later access hides `first` on each of `bytes`. The hiding access is one of
    /// `between`: it happens after `first`, comes before the access that races with `first`, and
    /// conflicts with everything that `first` conflicts with. It races in `first`'s place. The
    /// checker keeps only accesses that can still race, so it names the hiding access instead.
    fn hidden(&self, first: &Access<'_>, between: &[Access<'_>], bytes: Range<u64>) -> bool {
        let mut open = vec![bytes];
        for later in between {
            let after = first.node == later.node || self.is_before(first.node, later.node);
            if !after || (later.kind == Read && first.kind == Write) {
                continue;
            }
            let cut = |range: Range<u64>| {
                let left = range.start..range.end.min(later.bytes.start);
                let right = range.start.max(later.bytes.end)..range.end;
                [left, right].into_iter().filter(|range| range.start < range.end)
            };
            open = open.into_iter().flat_map(cut).collect();
        }
        open.is_empty()
    }

    /// The nodes of one world in an order that its edges allow. In it `second` comes before
    /// `first`, though `second` was called later. Otherwise the order of the calls decides.
    pub(crate) fn flipped(&self, is_in: impl Fn(&Info) -> bool, second: Option<Node>) -> Vec<Node> {
        let early =
            |node: &Node| second.is_some_and(|second| *node == second || self.is_before(*node, second));
        let nodes = || (0..self.nodes.len()).filter(|node| is_in(&self.nodes[*node]));
        nodes()
            .filter(|node| early(node))
            .chain(nodes().filter(|node| !early(node)))
            .collect()
    }
}

impl Info {
    pub(crate) fn world(&self) -> World {
        self.world
    }

    /// Whether the node touches memory, and is more than a place in the order.
    pub(crate) fn acts(&self) -> bool {
        !self.touches.is_empty()
    }
}

struct Access<'a> {
    node: Node,
    entry: usize,
    kind: AccessKind,
    bytes: &'a Range<u64>,
}

impl Access<'_> {
    fn side(&self) -> Side {
        (self.entry, self.kind == Write)
    }
}
