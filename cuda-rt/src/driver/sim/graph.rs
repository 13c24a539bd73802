//! Captures, which record instead of running, and the graphs that replay them.
//!
//! As in CUDA, an illegal call *invalidates* the capture: each later call on its streams fails, and so does the end. Unlike in
//! CUDA, memory that a capture allocates and does not free belongs to the graph until that is destroyed.

use super::State;
use super::clock::SpanKind;
use super::fault::Call;
use super::launch::Trap;
use super::stream::{Op, Position};
use crate::driver::{DriverError, DriverResult, ErrorCode, RawGraph, RawStream};

/// Where a stream, or an event recorded in it, stands in a capture.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    pub(super) capture: u64,
    /// The nodes that the next one comes after.
    tail: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Node {
    op: Op,
    /// Nodes that it comes after; all stand before it in the list.
    after: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Capture {
    origin: u64,
    /// The device that it is captured on.
    device: usize,
    nodes: Vec<Node>,
    /// Blocks that its allocations hold, and whether it frees them.
    blocks: Vec<(u64, bool)>,
    invalidated: bool,
}

#[derive(Debug)]
pub(super) struct Graph {
    /// The device that it was captured on.
    device: usize,
    nodes: Vec<Node>,
    blocks: Vec<u64>,
    /// Launches that did not run yet.
    pending: usize,
    /// The last launch: two launches of one graph never overlap.
    last: Option<(Position, u64)>,
    /// Goes when no launch is pending; no call finds it any more.
    pub(super) destroyed: bool,
}

impl State {
    pub(super) fn begin_capture(&mut self, stream: RawStream) -> DriverResult<()> {
        let s = self.stream(Call::BeginCapture, stream)?;
        if s.capture.is_some() {
            return Err(self.error(Call::BeginCapture, ErrorCode::ILLEGAL_STATE));
        }
        let device = s.device;
        let (nodes, blocks) = (Vec::new(), Vec::new());
        let capture = self.captures.insert(Capture {
            origin: stream.0,
            device,
            nodes,
            blocks,
            invalidated: false,
        });
        let membership = Membership {
            capture,
            tail: Vec::new(),
        };
        self.stream(Call::BeginCapture, stream)?.capture = Some(membership);
        Ok(())
    }

    /// Adds an operation to the capture that `stream` is in.
    pub(super) fn capture_op(&mut self, call: Call, stream: RawStream, op: Op) -> DriverResult<()> {
        let capture = self.capture_of(stream);
        self.check_capture(call, capture)?;
        let nodes: Vec<Node> = match op {
            // A graph becomes part of the one that is captured, as its child.
            Op::Graph(child) => {
                let child = self.graphs.get_mut(child).expect("the caller found it");
                let copies = child
                    .nodes
                    .iter_mut()
                    .map(|node| Some((node.op.duplicate()?, node.after.clone())));
                let Some(copies) = copies.collect::<Option<Vec<_>>>() else {
                    return Err(self.error(call, ErrorCode::NOT_SUPPORTED));
                };
                copies.into_iter().map(|(op, after)| Node { op, after }).collect()
            }
            op => vec![Node {
                op,
                after: Vec::new(),
            }],
        };
        let membership = self
            .stream(call, stream)?
            .capture
            .take()
            .expect("it is in a capture");
        let recorded = &mut self.captures.get_mut(capture).expect("it is in progress").nodes;
        let (start, mut is_leaf) = (recorded.len(), vec![true; nodes.len()]);
        for Node { op, mut after } in nodes {
            after.iter().for_each(|node| is_leaf[*node] = false);
            after.iter_mut().for_each(|node| *node += start);
            if after.is_empty() {
                after.clone_from(&membership.tail);
            }
            recorded.push(Node { op, after });
        }
        let leaves = (start..)
            .zip(is_leaf)
            .filter_map(|(node, leaf)| leaf.then_some(node));
        let tail = Some(leaves.collect::<Vec<_>>())
            .filter(|tail| !tail.is_empty())
            .unwrap_or(membership.tail);
        self.stream(call, stream)?.capture = Some(Membership { capture, tail });
        Ok(())
    }

    /// Allocates for the graph that is captured.
    pub(super) fn capture_alloc(&mut self, stream: RawStream, bytes: u64) -> DriverResult<u64> {
        let capture = self.capture_of(stream);
        self.check_capture(Call::Alloc, capture)?;
        let device = self.captures.get(capture).expect("checked above").device;
        let Some(address) = self.memories[device].take(bytes, None, &mut self.random) else {
            return Err(self.error(Call::Alloc, ErrorCode::OUT_OF_MEMORY));
        };
        let c = self.captures.get_mut(capture).expect("checked above");
        c.blocks.push((address, false));
        self.memories[device].set_captured(address);
        let salt = self.random.next();
        self.submit(Call::Alloc, stream, Op::Spoil { address, bytes, salt })?;
        Ok(address)
    }

    /// Frees what the same capture allocated.
    pub(super) fn capture_free(&mut self, stream: RawStream, address: u64) -> DriverResult<()> {
        let capture = self.capture_of(stream);
        self.check_capture(Call::Free, capture)?;
        let c = self.captures.get_mut(capture).expect("checked above");
        let Some(block) = c.blocks.iter_mut().find(|block| **block == (address, false)) else {
            return Err(self.error(Call::Free, ErrorCode::INVALID_VALUE));
        };
        block.1 = true;
        let device = c.device;
        let (bytes, salt) = (
            self.memories[device]
                .block_bytes(address)
                .expect("the capture holds it"),
            self.random.next(),
        );
        self.submit(Call::Free, stream, Op::Spoil { address, bytes, salt })
    }

    /// `stream` waits for an event that was recorded in a capture: it joins, if it may.
    pub(super) fn join_capture(&mut self, stream: RawStream, event: Membership) -> DriverResult<()> {
        const CALL: Call = Call::WaitEvent;
        if self.captures.get(event.capture).is_none() {
            return Err(self.touch_captured(CALL, event.capture));
        }
        self.check_capture(CALL, event.capture)?;
        match &mut self.stream(CALL, stream)?.capture {
            none @ None => *none = Some(event),
            Some(own) if own.capture == event.capture => {
                own.tail.extend(event.tail);
                own.tail.sort_unstable();
                own.tail.dedup();
            }
            Some(own) => {
                let own = own.capture;
                self.invalidate(own);
                self.invalidate(event.capture);
                return Err(self.error(CALL, ErrorCode::STREAM_CAPTURE_MERGE));
            }
        }
        self.clock.spend(self.config.model.wait_call_ns);
        Ok(())
    }

    pub(super) fn end_capture(&mut self, stream: RawStream) -> DriverResult<RawGraph> {
        const CALL: Call = Call::EndCapture;
        let Some(Membership { capture, tail }) = self.stream(CALL, stream)?.capture.clone() else {
            return Err(self.error(CALL, ErrorCode::ILLEGAL_STATE));
        };
        if self.captures.get(capture).is_some_and(|c| c.origin != stream.0) {
            self.invalidate(capture);
            return Err(self.error(CALL, ErrorCode::STREAM_CAPTURE_UNMATCHED));
        }
        let c = self.detach_capture(capture);
        let unjoined = !all_precede(&c.nodes, &tail);
        if c.invalidated || unjoined {
            self.release_capture(c);
            let code = if unjoined {
                ErrorCode::STREAM_CAPTURE_UNJOINED
            } else {
                ErrorCode::STREAM_CAPTURE_INVALIDATED
            };
            return Err(self.error(CALL, code));
        }
        let blocks = c.blocks.into_iter().map(|(address, _)| address).collect();
        let graph = Graph {
            device: c.device,
            nodes: c.nodes,
            blocks,
            pending: 0,
            last: None,
            destroyed: false,
        };
        Ok(RawGraph(self.graphs.insert(graph)))
    }

    /// Ends the capture that begun on `stream` and forgets it: what a failed end leaves.
    pub(super) fn abandon_capture(&mut self, stream: RawStream) {
        if let Some(Membership { capture, .. }) = self.streams.get(stream.0).and_then(|s| s.capture.clone())
            && self.captures.get(capture).is_some_and(|c| c.origin == stream.0)
        {
            let c = self.detach_capture(capture);
            self.release_capture(c);
        }
    }

    /// Takes all streams out of a capture that is in progress.
    fn detach_capture(&mut self, capture: u64) -> Capture {
        for (_, s) in self.streams.iter_mut() {
            if s.capture.as_ref().is_some_and(|m| m.capture == capture) {
                s.capture = None;
            }
        }
        self.captures.remove(capture).expect("it is in progress")
    }

    fn release_capture(&mut self, capture: Capture) {
        let memory = &mut self.memories[capture.device];
        capture
            .blocks
            .into_iter()
            .for_each(|(address, _)| memory.release(address));
    }

    pub(super) fn launch_graph(&mut self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        const CALL: Call = Call::LaunchGraph;
        let captured = self.stream(CALL, stream)?.capture.is_some();
        let Some(g) = self.graphs.get(graph.0).filter(|g| !g.destroyed) else {
            return Err(self.error(CALL, ErrorCode::INVALID_HANDLE));
        };
        if captured {
            return self.submit(CALL, stream, Op::Graph(graph.0));
        }
        let mut ready_ns = self.clock.now_ns() + self.config.model.launch_call_ns;
        if let Some((position, end_ns)) = g.last {
            ready_ns = ready_ns.max(end_ns);
            if position.stream != stream.0 && !self.is_done(position) {
                self.enqueue(stream.0, Op::Wait(position));
            }
        }
        let s = self.streams.get_mut(stream.0).expect("found above");
        let g = self.graphs.get_mut(graph.0).expect("found above");
        ready_ns = ready_ns.max(s.modelled_end_ns);
        let mut ends_ns: Vec<u64> = Vec::with_capacity(g.nodes.len());
        for node in &mut g.nodes {
            let start_ns = node.after.iter().map(|i| ends_ns[*i]).fold(ready_ns, u64::max);
            let place = (stream, s.issued());
            let run = |work| self.clock.run(&self.config, s.device, &work, start_ns, place);
            ends_ns.push(node.op.work().map_or(start_ns, run));
        }
        let end_ns = ends_ns.into_iter().fold(ready_ns, u64::max);
        g.pending += 1;
        g.last = Some((
            Position {
                stream: stream.0,
                at: s.issued() + 1,
            },
            end_ns,
        ));
        self.submit(CALL, stream, Op::Graph(graph.0))?;
        let s = self.stream(CALL, stream)?;
        s.modelled_end_ns = s.modelled_end_ns.max(end_ns);
        Ok(())
    }

    /// Runs the nodes of a graph in an order that the seed chooses among those that their edges allow.
    pub(super) fn replay(&mut self, graph: u64) -> Result<(), Trap> {
        let g = self
            .graphs
            .get_mut(graph)
            .expect("it stays while a launch is pending");
        g.pending -= 1;
        let memory = &self.memories[g.device];
        let mut blockers: Vec<usize> = g.nodes.iter().map(|node| node.after.len()).collect();
        let mut successors: Vec<Vec<usize>> = vec![Vec::new(); g.nodes.len()];
        for (i, node) in g.nodes.iter().enumerate() {
            node.after.iter().for_each(|before| successors[*before].push(i));
        }
        let mut ready: Vec<usize> = (0..g.nodes.len()).filter(|i| blockers[*i] == 0).collect();
        while !ready.is_empty() {
            let i = ready.swap_remove(self.random.below(ready.len()));
            let op = &mut g.nodes[i].op;
            op.perform(memory)?;
            self.counters.count(op);
            for &next in &successors[i] {
                blockers[next] -= 1;
                if blockers[next] == 0 {
                    ready.push(next);
                }
            }
        }
        self.collect_graph(graph);
        Ok(())
    }

    pub(super) fn destroy_graph(&mut self, graph: RawGraph) -> DriverResult<()> {
        let Some(g) = self.graphs.get_mut(graph.0).filter(|g| !g.destroyed) else {
            return Err(self.error(Call::DestroyGraph, ErrorCode::INVALID_HANDLE));
        };
        g.destroyed = true;
        self.collect_graph(graph.0);
        Ok(())
    }

    fn collect_graph(&mut self, graph: u64) {
        if self
            .graphs
            .get(graph)
            .is_some_and(|g| g.destroyed && g.pending == 0)
        {
            let g = self.graphs.remove(graph).expect("found above");
            let memory = &mut self.memories[g.device];
            g.blocks.into_iter().for_each(|address| memory.release(address));
        }
    }

    fn capture_of(&self, stream: RawStream) -> u64 {
        let s = self.streams.get(stream.0).expect("the caller found it");
        s.capture.as_ref().expect("the caller saw it captured").capture
    }

    /// An error if the capture was invalidated.
    pub(super) fn check_capture(&self, call: Call, capture: u64) -> DriverResult<()> {
        match self.captures.get(capture) {
            Some(c) if !c.invalidated => Ok(()),
            _ => Err(self.error(call, ErrorCode::STREAM_CAPTURE_INVALIDATED)),
        }
    }

    fn invalidate(&mut self, capture: u64) {
        if let Some(c) = self.captures.get_mut(capture) {
            c.invalidated = true;
        }
    }

    /// A call that may not be made on a stream in a capture.
    pub(super) fn refuse_capture(&mut self, call: Call, stream: RawStream) -> DriverError {
        self.invalidate(self.capture_of(stream));
        self.error(call, ErrorCode::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// A stream in a capture would wait for what is not in it.
    pub(super) fn leave_capture(&mut self, call: Call, stream: RawStream) -> DriverError {
        self.invalidate(self.capture_of(stream));
        self.error(call, ErrorCode::STREAM_CAPTURE_ISOLATION)
    }

    /// An event that was recorded in a capture was used as one of a stream.
    pub(super) fn touch_captured(&mut self, call: Call, capture: u64) -> DriverError {
        self.invalidate(capture);
        self.error(call, ErrorCode::CAPTURED_EVENT)
    }
}

impl Op {
    /// A copy for another graph; `None` where CUDA allows none, for memory nodes of a child graph.
    fn duplicate(&mut self) -> Option<Self> {
        Some(match self {
            Self::Copy {
                kind,
                destination,
                source,
                bytes,
            } => {
                let kind: SpanKind = *kind;
                Self::Copy {
                    kind,
                    destination: *destination,
                    source: *source,
                    bytes: *bytes,
                }
            }
            Self::Fill {
                destination,
                pattern,
                bytes,
            } => Self::Fill {
                destination: *destination,
                pattern: pattern.clone(),
                bytes: *bytes,
            },
            Self::Launch(launch) => Self::Launch(Box::new(launch.duplicate())),
            Self::Spoil { .. } => return None,
            Self::Wait(_) | Self::Free { .. } | Self::Graph(_) | Self::Send { .. } | Self::Receive(_) => {
                unreachable!("never in a graph")
            }
        })
    }
}

/// Whether each node comes before those of `tail`, or is one of them.
fn all_precede(nodes: &[Node], tail: &[usize]) -> bool {
    let mut reached = vec![false; nodes.len()];
    let mut open = tail.to_vec();
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            open.extend(&nodes[node].after);
        }
    }
    reached.into_iter().all(|reached| reached)
}
