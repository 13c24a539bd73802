//! Captures, which record instead of running, and the graphs that replay them.
//!
//! As in CUDA, an illegal call *invalidates* the capture: each later call on its streams fails, and
//! its end fails too. Unlike in CUDA, memory that a capture allocates and does not free belongs to
//! the graph until the graph is destroyed.
//!
//! A launch replays the graph as it was at the call, however late it runs. An update therefore
//! makes a new *version* if launches of the present version are pending.

use super::State;
use super::fault::Call;
use super::launch::{Launch, Trap};
use super::op::{Op, Position};
use super::reach::Reach;
use super::replay::Replay;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode, HostFunction, RawGraph, RawNode, RawStream};

/// The place in a capture at which a stream stands, or an event recorded in the stream.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    pub(super) capture: u64,
    /// The nodes that the next node comes after.
    tail: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Node {
    /// Unique among the nodes of the device.
    id: u64,
    op: Op,
    /// Nodes that this one comes after; all stand before it in the list.
    pub(super) after: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Capture {
    origin: u64,
    /// The device of the captured stream.
    device: usize,
    nodes: Vec<Node>,
    /// Blocks that the capture allocated, each with whether the capture frees it.
    blocks: Vec<(u64, bool)>,
    invalidated: bool,
}

#[derive(Debug)]
pub(super) struct Graph {
    /// The device of the captured stream.
    device: usize,
    /// The version that new launches replay.
    present: Version,
    /// Versions that launches made before an update still have to replay.
    past: Vec<Version>,
    blocks: Vec<u64>,
    /// The last launch: two launches of one graph never overlap.
    last: Option<(Position, u64)>,
    /// Removed when no launch is pending; no call finds it any more.
    pub(super) destroyed: bool,
}

#[derive(Debug)]
struct Version {
    number: u64,
    /// The nodes, with the ids of the first version.
    nodes: Vec<Node>,
    /// Number of launches that did not run yet.
    pending: usize,
}

impl Graph {
    /// Makes a version of these nodes the present one.
    fn renew(&mut self, nodes: Vec<Node>) {
        let number = self.present.number + 1;
        let pending = 0;
        let past = std::mem::replace(
            &mut self.present,
            Version {
                number,
                nodes,
                pending,
            },
        );
        if past.pending > 0 {
            self.past.push(past);
        }
    }

    /// The version that a pending launch replays.
    fn version(&mut self, number: u64) -> &mut Version {
        if self.present.number == number {
            return &mut self.present;
        }
        let past = self.past.iter_mut().find(|version| version.number == number);
        past.expect("a version stays while a launch is pending")
    }
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
            // A captured launch of a graph adds that graph as a child.
            Op::Graph { graph: child, .. } => {
                let child = self.graphs.get_mut(child).expect("the caller found the graph");
                if child.present.nodes.iter().any(|node| node.op.is_of_memory()) {
                    return Err(self.error(call, ErrorCode::NOT_SUPPORTED));
                }
                child.present.nodes.iter().map(Node::duplicate).collect()
            }
            op => vec![Node {
                id: 0,
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
        for Node { op, mut after, .. } in nodes {
            after.iter().for_each(|node| is_leaf[*node] = false);
            after.iter_mut().for_each(|node| *node += start);
            if after.is_empty() {
                after.clone_from(&membership.tail);
            }
            self.nodes_made += 1;
            let id = self.nodes_made;
            recorded.push(Node { id, op, after });
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

    /// Allocates for the graph that is being captured.
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

    /// Frees memory that the same capture allocated.
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

    /// Makes `stream` wait for an event recorded in a capture: the stream joins the capture, if it
    /// may.
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
        let Capture {
            device,
            nodes,
            blocks,
            ..
        } = self.finish_capture(Call::EndCapture, stream)?;
        let blocks = blocks.into_iter().map(|(address, _)| address).collect();
        let (number, pending) = (0, 0);
        let graph = Graph {
            device,
            present: Version {
                number,
                nodes,
                pending,
            },
            past: Vec::new(),
            blocks,
            last: None,
            destroyed: false,
        };
        Ok(RawGraph(self.graphs.insert(graph)))
    }

    /// Ends the capture that began on `stream`, and returns the recording if it is a graph.
    fn finish_capture(&mut self, call: Call, stream: RawStream) -> DriverResult<Capture> {
        let Some(Membership { capture, tail }) = self.stream(call, stream)?.capture.clone() else {
            return Err(self.error(call, ErrorCode::ILLEGAL_STATE));
        };
        if self.captures.get(capture).is_some_and(|c| c.origin != stream.0) {
            self.invalidate(capture);
            return Err(self.error(call, ErrorCode::STREAM_CAPTURE_UNMATCHED));
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
            return Err(self.error(call, code));
        }
        Ok(c)
    }

    /// The node of the stream's latest operation.
    pub(super) fn captured_node(&mut self, stream: RawStream) -> DriverResult<RawNode> {
        const CALL: Call = Call::CapturedNode;
        let Some(Membership { capture, tail }) = self.stream(CALL, stream)?.capture.clone() else {
            return Err(self.error(CALL, ErrorCode::ILLEGAL_STATE));
        };
        self.check_capture(CALL, capture)?;
        match (&tail[..], self.captures.get(capture)) {
            ([node], Some(capture)) => Ok(RawNode(capture.nodes[*node].id)),
            _ => Err(self.error(CALL, ErrorCode::ILLEGAL_STATE)),
        }
    }

    pub(super) fn update_graph(&mut self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        const CALL: Call = Call::UpdateGraph;
        if self.graphs.get(graph.0).is_none_or(|g| g.destroyed) {
            self.abandon_capture(stream);
            return Err(self.error(CALL, ErrorCode::INVALID_HANDLE));
        }
        let recorded = self.finish_capture(CALL, stream)?;
        let g = self.graphs.get_mut(graph.0).expect("found above");
        let present = &g.present.nodes;
        let pairs = present.iter().zip(&recorded.nodes);
        // Memory nodes are never updated.
        let fits = recorded.blocks.is_empty()
            && g.blocks.is_empty()
            && present.len() == recorded.nodes.len()
            && pairs
                .clone()
                .all(|(old, new)| old.after == new.after && old.op.can_become(&new.op, &self.host));
        if !fits {
            self.release_capture(recorded);
            return Err(self.error(CALL, ErrorCode::GRAPH_EXEC_UPDATE_FAILURE));
        }
        let ids: Vec<u64> = pairs.map(|(old, _)| old.id).collect();
        let renamed = recorded.nodes.into_iter().zip(ids);
        g.renew(renamed.map(|(node, id)| Node { id, ..node }).collect());
        self.clock.spend(self.config.model.other_call_ns);
        Ok(())
    }

    pub(super) fn set_launch(&mut self, graph: RawGraph, node: RawNode, launch: Launch) -> DriverResult<()> {
        const CALL: Call = Call::SetLaunch;
        let Some(g) = self.graphs.get_mut(graph.0).filter(|g| !g.destroyed) else {
            return Err(self.error(CALL, ErrorCode::INVALID_HANDLE));
        };
        let found = g.present.nodes.iter().position(|n| n.id == node.0);
        let Some(place) = found.filter(|place| matches!(g.present.nodes[*place].op, Op::Launch(_))) else {
            return Err(self.error(CALL, ErrorCode::INVALID_VALUE));
        };
        if g.present.pending > 0 {
            let copies = g.present.nodes.iter().map(Node::duplicate).collect();
            g.renew(copies);
        }
        g.present.nodes[place].op = Op::Launch(Box::new(launch));
        self.clock.spend(self.config.model.other_call_ns);
        Ok(())
    }

    /// Ends the capture that began on `stream` and forgets it, after a failed end.
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
        let graph = graph.0;
        let replayed = Op::Graph {
            graph,
            version: g.present.number,
            replay: None,
        };
        if captured {
            return self.submit(CALL, stream, replayed);
        }
        let mut ready_ns = self
            .clock
            .now_ns()
            .saturating_add(self.config.model.launch_call_ns);
        if let Some((position, end_ns)) = g.last {
            ready_ns = ready_ns.max(end_ns);
            if position.stream != stream.0 && !self.is_done(position) {
                self.enqueue(stream.0, Op::Wait(position));
            }
        }
        let s = self.streams.get_mut(stream.0).expect("found above");
        let g = self.graphs.get_mut(graph).expect("found above");
        ready_ns = ready_ns.max(s.modelled_end_ns);
        let mut ends_ns: Vec<u64> = Vec::with_capacity(g.present.nodes.len());
        for node in &mut g.present.nodes {
            let start_ns = node.after.iter().map(|i| ends_ns[*i]).fold(ready_ns, u64::max);
            let place = (stream, s.issued());
            let run = |work| self.clock.run(&self.config, s.device, &work, start_ns, place);
            ends_ns.push(node.op.work().map_or(start_ns, run));
        }
        let end_ns = ends_ns.into_iter().fold(ready_ns, u64::max);
        g.present.pending += 1;
        g.last = Some((
            Position {
                stream: stream.0,
                at: s.issued() + 1,
            },
            end_ns,
        ));
        self.submit(CALL, stream, replayed)?;
        let s = self.stream(CALL, stream)?;
        s.modelled_end_ns = s.modelled_end_ns.max(end_ns);
        Ok(())
    }

    /// Runs the nodes of a graph. The seed chooses among the orders that the edges allow. If it
    /// comes to a host function, returns the function; once that has ended, the next call goes on.
    pub(super) fn replay(
        &mut self,
        graph: u64,
        version: u64,
        replay: &mut Option<Box<Replay>>,
    ) -> Result<Option<HostFunction>, Trap> {
        let g = self
            .graphs
            .get_mut(graph)
            .expect("a graph stays while a launch is pending");
        let reach = Reach {
            device: g.device,
            memories: &self.memories,
            granted: &self.granted,
            host: &self.host,
        };
        let g = g.version(version);
        let replay =
            replay.get_or_insert_with(|| Box::new(Replay::of(g.nodes.iter().map(|node| &node.after[..]))));
        while let Some(i) = replay.choose(&mut self.random) {
            let op = &mut g.nodes[i].op;
            if let Op::HostFunction(function) = op {
                replay.running = Some(i);
                return Ok(Some(*function));
            }
            op.perform(&reach)?;
            self.counters.count(op);
            replay.ran(i);
        }
        // Until here an update must keep the version.
        g.pending -= 1;
        self.collect_graph(graph);
        Ok(None)
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
        let Some(g) = self.graphs.get_mut(graph) else {
            return;
        };
        g.past.retain(|version| version.pending > 0);
        if g.destroyed && g.present.pending == 0 && g.past.is_empty() {
            let g = self.graphs.remove(graph).expect("found above");
            let memory = &mut self.memories[g.device];
            g.blocks.into_iter().for_each(|address| memory.release(address));
        }
    }

    fn capture_of(&self, stream: RawStream) -> u64 {
        let s = self.streams.get(stream.0).expect("the caller found the stream");
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

    /// Refuses a call that may not be made on a stream in a capture.
    pub(super) fn refuse_capture(&mut self, call: Call, stream: RawStream) -> DriverError {
        self.invalidate(self.capture_of(stream));
        self.error(call, ErrorCode::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Refuses a wait of a stream in a capture for work outside the capture.
    pub(super) fn leave_capture(&mut self, call: Call, stream: RawStream) -> DriverError {
        self.invalidate(self.capture_of(stream));
        self.error(call, ErrorCode::STREAM_CAPTURE_ISOLATION)
    }

    /// Refuses the use of an event recorded in a capture as an event of a stream.
    pub(super) fn touch_captured(&mut self, call: Call, capture: u64) -> DriverError {
        self.invalidate(capture);
        self.error(call, ErrorCode::CAPTURED_EVENT)
    }
}

impl Node {
    /// A copy for another graph, or for another version of the same graph.
    fn duplicate(&self) -> Self {
        Self {
            id: self.id,
            op: self.op.duplicate(),
            after: self.after.clone(),
        }
    }
}

impl Op {
    /// Whether the operation belongs to memory that a graph allocates.
    fn is_of_memory(&self) -> bool {
        matches!(self, Self::Spoil { .. })
    }

    fn duplicate(&self) -> Self {
        match self {
            Self::Copy {
                kind,
                destination,
                source,
                bytes,
            } => Self::Copy {
                kind: *kind,
                destination: *destination,
                source: *source,
                bytes: *bytes,
            },
            Self::Fill {
                destination,
                pattern,
                bytes,
            } => Self::Fill {
                destination: *destination,
                pattern: pattern.clone(),
                bytes: *bytes,
            },
            Self::CopyRows(rows) => Self::CopyRows(rows.clone()),
            Self::Launch(launch) => Self::Launch(Box::new(launch.duplicate())),
            Self::Function(function) => Self::Function(function.clone()),
            Self::HostFunction(function) => Self::HostFunction(*function),
            Self::Spoil { address, bytes, salt } => Self::Spoil {
                address: *address,
                bytes: *bytes,
                salt: *salt,
            },
            Self::Wait(_) | Self::Free { .. } | Self::Graph { .. } | Self::Send { .. } | Self::Receive(_) => {
                unreachable!("never in a graph")
            }
        }
    }
}

/// Whether each node comes before a node of `tail`, or is in `tail`.
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
