//! Which calls of a log race, by brute force: every edge of CUDA's rules drawn one by one, and
//! reachability over the graph.
//!
//! Shares nothing with the checker. No clocks and nothing forgotten: an operation gets an edge from
//! what its stream, its call and its waits put before it, and every pair of accesses is looked at.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use cuda_rt::checker::AccessKind;
use cuda_rt::checker::AccessKind::{Read, Write};

use crate::log::{Call, Life, Log, Touch};

pub(crate) type Node = usize;

/// An operation, a step of the host, or a bare place in a stream.
#[derive(Debug)]
pub(crate) struct Info {
    /// The log's entry.
    pub(crate) entry: usize,
    world: World,
    touches: Vec<(usize, Touch)>,
    /// All nodes that come before it, as bits.
    before: Vec<u64>,
}

/// What races with what: the work of one device, or of one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum World {
    Device(usize),
    Capture(usize),
}

#[derive(Debug, Default)]
struct Stream {
    last: Option<Node>,
    /// The capture that it is in, and its last node there.
    capture: Option<(usize, Option<Node>)>,
}

/// The graph of a log, with one entry left out or none.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) nodes: Vec<Info>,
    host: Option<Node>,
    streams: HashMap<(usize, u64), Stream>,
    events: HashMap<(usize, u64), (World, Node)>,
    /// The entry at which each began, and whose stream it began on.
    captures: Vec<(usize, u64)>,
    /// What the launches touch, by the entry that was captured, and the last launch.
    graphs: HashMap<(usize, u64), (World, Vec<(usize, Touch)>, Option<Node>)>,
    /// The capture of each graph's launches.
    pub(crate) launched: HashMap<Node, World>,
}

/// One side of a race as a report tells it: the entry that was called, and what it does to the
/// bytes.
pub(crate) type Side = (usize, bool);

/// Two accesses to the same bytes, one of them a write, that nothing orders; the one called first
/// comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Conflict {
    pub(crate) first: Node,
    pub(crate) second: Node,
    /// As the checker should report it.
    pub(crate) report: (Side, Side),
    /// Whether it must: on some byte nothing hides it; see `hidden`.
    pub(crate) reported: bool,
}

impl Order {
    pub(crate) fn of(log: &Log, left_out: Option<usize>) -> Self {
        let mut order = Self::default();
        for (i, entry) in log.entries.iter().enumerate() {
            if Some(i) != left_out {
                order.entry(log, i, entry.device, &entry.call);
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

    /// The host's next step.
    fn host(&mut self, entry: usize, device: usize, after: Option<Node>, touches: Vec<Touch>) {
        let after = self.host.into_iter().chain(after);
        self.host = Some(self.node(entry, World::Device(device), after, touches));
    }

    /// A stream's next operation: after what it holds, and after the call; in a capture only after
    /// what it holds.
    fn operation(
        &mut self,
        entry: usize,
        device: usize,
        stream: u64,
        after: Option<Node>,
        touches: Vec<Touch>,
    ) -> (World, Node) {
        let key = (device, stream);
        if let Some((capture, last)) = self.streams.entry(key).or_default().capture {
            let world = World::Capture(capture);
            let node = self.node(entry, world, last.into_iter().chain(after), touches);
            self.streams.entry(key).or_default().capture = Some((capture, Some(node)));
            return (world, node);
        }
        self.host(entry, device, None, Vec::new());
        let after: Vec<Node> = self.streams[&key]
            .last
            .into_iter()
            .chain(self.host)
            .chain(after)
            .collect();
        let world = World::Device(device);
        let node = self.node(entry, world, after, touches);
        self.streams.entry(key).or_default().last = Some(node);
        (world, node)
    }

    fn entry(&mut self, log: &Log, i: usize, device: usize, call: &Call) {
        let touches = log.touches(call);
        let own = |handle: &u64| (device, *handle);
        match call {
            Call::Alloc { stream, .. }
            | Call::Free { stream, .. }
            | Call::Copy { stream, .. }
            | Call::Fill { stream, .. }
            | Call::Launch { stream, .. } => {
                self.operation(i, device, *stream, None, touches);
            }
            Call::Record { event, stream } => {
                let at = self.operation(i, device, *stream, None, touches);
                self.events.insert(own(event), at);
            }
            Call::Wait { stream, event } => match self.events.get(&own(event)).copied() {
                None => {}
                Some((World::Device(_), node)) => {
                    self.operation(i, device, *stream, Some(node), touches);
                }
                Some((World::Capture(capture), node)) => {
                    self.streams
                        .entry(own(stream))
                        .or_default()
                        .capture
                        .get_or_insert((capture, None));
                    self.operation(i, device, *stream, Some(node), touches);
                }
            },
            Call::SeenDone(event) | Call::SynchronizeEvent(event) => {
                if let Some((World::Device(_), node)) = self.events.get(&own(event)).copied() {
                    self.host(i, device, Some(node), touches);
                }
            }
            Call::SynchronizeStream(stream) => {
                let last = self.streams.get(&own(stream)).and_then(|stream| stream.last);
                self.host(i, device, last, touches);
            }
            Call::Unregister(_) | Call::HostWrote { .. } | Call::HostSees { .. } => {
                self.host(i, device, None, touches)
            }
            Call::BeginCapture(stream) => {
                self.captures.push(own(stream));
                self.streams.entry(own(stream)).or_default().capture = Some((self.captures.len() - 1, None));
            }
            Call::EndCapture { stream, graph } => {
                let Some((capture, _)) = self.streams.get(&own(stream)).and_then(|stream| stream.capture)
                else {
                    return;
                };
                let world = World::Capture(capture);
                let inside = self.nodes.iter().filter(|node| node.world == world);
                let touched = inside.flat_map(|node| node.touches.iter().cloned()).collect();
                self.graphs.insert(own(graph), (world, touched, None));
                for stream in self.streams.values_mut() {
                    stream.capture = stream.capture.filter(|(other, _)| *other != capture);
                }
            }
            Call::LaunchGraph { graph, stream } => {
                let (world, touched, last) = self.graphs.get(&own(graph)).cloned().expect("it was captured");
                let (_, node) = self.operation(i, device, *stream, last, Vec::new());
                self.nodes[node].touches = touched;
                self.launched.insert(node, world);
                self.graphs.get_mut(&own(graph)).expect("found above").2 = Some(node);
            }
            Call::CreateStream(_)
            | Call::DestroyStream(_)
            | Call::CreateEvent { .. }
            | Call::DestroyEvent(_)
            | Call::Register(_)
            | Call::DestroyGraph(_) => {}
        }
    }

    /// All pairs of accesses that conflict and that nothing orders.
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

    /// Whether each of `bytes` was touched after `first`, and before the access that races with it,
    /// by one of `between` that `first` happens before and that conflicts with all that `first`
    /// conflicts with: then that one races in its place, and the checker, which keeps what can
    /// still race and not all history, names it instead.
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

    /// The nodes of one world in an order that its edges allow, in which `second` comes before
    /// `first` though it was called later; in the order of the calls where neither is said.
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

    /// Whether it does something to memory, and is no mere place in the order.
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
