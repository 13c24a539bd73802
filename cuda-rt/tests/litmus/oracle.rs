//! The verdict by brute force: every edge of the rules is drawn one by one, and races are found by
//! reachability over the graph.
//!
//! The oracle shares only the parsed program with the checker. It has no clocks and no pruning. An
//! operation gets an edge from *each* earlier operation that it comes after, and every pair of
//! accesses is examined.

use std::collections::{BTreeSet, HashMap};

use cuda_rt::checker::AccessKind;
use cuda_rt::checker::AccessKind::{Read, Write};
use hazard_programs::{
    Blocking, Called, Operation, Part, Program, Region, Space, Statement, StreamName, Touch,
};

type Node = usize;

/// A part of one life of memory: after an allocation a name means other bytes.
type Bytes = (String, u32, Vec<Part>);

#[derive(Clone, PartialEq)]
enum Place {
    Host,
    Stream(usize),
}

struct Info {
    statement: usize,
    place: Place,
    accesses: Vec<(AccessKind, Bytes)>,
    /// All nodes before this one.
    before: Vec<bool>,
}

struct Stream {
    name: String,
    device: u32,
    kind: Kind,
    destroyed: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Legacy,
    Blocking,
    NonBlocking,
}

#[derive(Default)]
struct Graph {
    nodes: Vec<Info>,
    streams: Vec<Stream>,
    memory: HashMap<String, (Space, Option<u32>, u32)>,
    events: HashMap<String, Node>,
    requests: HashMap<String, Option<Node>>,
    /// The last node of each thread, and its device; the main thread is "".
    threads: HashMap<String, (Option<Node>, u32)>,
    /// Peer copies that act as barriers, with their devices.
    barriers: Vec<(Node, [u32; 2])>,
}

/// Pairs of statements that race; the earlier call comes first.
pub(crate) fn races(program: &Program) -> BTreeSet<(usize, usize)> {
    let mut graph = Graph::default();
    graph.threads.insert(String::new(), (None, 0));
    for (index, step) in program.steps.iter().enumerate() {
        let thread = step.thread.as_ref().map_or("", |name| &name.text).to_owned();
        graph.statement(index, &thread, &step.statement);
    }
    let nodes = &graph.nodes;
    let mut races = BTreeSet::new();
    for (j, second) in nodes.iter().enumerate() {
        for (i, first) in nodes.iter().enumerate().take(j) {
            let conflict = first.accesses.iter().any(|(first_kind, first)| {
                second.accesses.iter().any(|(second_kind, second)| {
                    (*first_kind == Write || *second_kind == Write) && overlap(first, second)
                })
            });
            if conflict && !second.before[i] {
                races.insert((first.statement, second.statement));
            }
        }
    }
    races
}

fn overlap(a: &Bytes, b: &Bytes) -> bool {
    (&a.0, a.1) == (&b.0, b.1) && a.2.iter().zip(&b.2).all(|(a, b)| a == b)
}

impl Graph {
    fn node(&mut self, statement: usize, place: Place, after: &[Node]) -> Node {
        let mut before = vec![false; self.nodes.len()];
        for &node in after {
            before[node] = true;
            for (i, earlier) in self.nodes[node].before.iter().enumerate() {
                before[i] |= earlier;
            }
        }
        self.nodes.push(Info {
            statement,
            place,
            accesses: Vec::new(),
            before,
        });
        self.nodes.len() - 1
    }

    /// Adds the next node of a thread.
    fn host(&mut self, statement: usize, thread: &str, after: &[Node]) -> Node {
        let main = self.threads[""].0;
        let (last, _) = *self.threads.entry(thread.to_owned()).or_insert((main, 0));
        let node = self.node(statement, Place::Host, &[last.as_slice(), after].concat());
        self.threads.get_mut(thread).unwrap().0 = Some(node);
        node
    }

    fn stream(&mut self, name: &StreamName, device: u32) -> usize {
        let found = match name {
            StreamName::Legacy => self
                .streams
                .iter()
                .position(|s| s.kind == Kind::Legacy && s.device == device),
            StreamName::Named(name) => self
                .streams
                .iter()
                .position(|s| s.kind != Kind::Legacy && s.name == name.text && !s.destroyed),
        };
        found.unwrap_or_else(|| {
            assert_eq!(
                *name,
                StreamName::Legacy,
                "programs given to the oracle name what is there"
            );
            self.streams.push(Stream {
                name: String::new(),
                device,
                kind: Kind::Legacy,
                destroyed: false,
            });
            self.streams.len() - 1
        })
    }

    /// All operations that a stream holds, or waits for because of its kind.
    fn held(&self, stream: usize) -> Vec<Node> {
        let own = &self.streams[stream];
        let of_stream = |place: &Place| {
            let Place::Stream(other) = *place else {
                return false;
            };
            let kinds = (own.kind, self.streams[other].kind);
            other == stream
                || self.streams[other].device == own.device
                    && matches!(
                        kinds,
                        (Kind::Legacy, Kind::Blocking) | (Kind::Blocking, Kind::Legacy)
                    )
        };
        let mut held: Vec<Node> = (0..self.nodes.len())
            .filter(|i| of_stream(&self.nodes[*i].place))
            .collect();
        held.extend(
            self.barriers
                .iter()
                .filter(|(_, devices)| devices.contains(&own.device))
                .map(|(node, _)| node),
        );
        held
    }

    fn device_holds(&self, device: u32) -> Vec<Node> {
        let streams = (0..self.streams.len()).filter(|s| self.streams[*s].device == device);
        let mut held: Vec<Node> = streams.flat_map(|stream| self.held(stream)).collect();
        held.extend(
            self.barriers
                .iter()
                .filter(|(_, devices)| devices.contains(&device))
                .map(|(node, _)| node),
        );
        held
    }

    /// Adds the next operation of a stream.
    fn operation(&mut self, statement: usize, stream: usize, call: Node, after: &[Node]) -> Node {
        let held = self.held(stream);
        self.node(
            statement,
            Place::Stream(stream),
            &[held.as_slice(), &[call], after].concat(),
        )
    }

    fn bytes(&self, region: &Region) -> Bytes {
        let name = &region.memory.text;
        (name.clone(), self.memory[name].2, region.parts.clone())
    }

    fn touch(&mut self, node: Node, kind: AccessKind, region: &Region) {
        let bytes = self.bytes(region);
        self.nodes[node].accesses.push((kind, bytes));
    }

    fn touch_all(&mut self, node: Node, touches: &[Touch]) {
        touches
            .iter()
            .for_each(|touch| self.touch(node, touch.kind, &touch.region));
    }

    fn allocate(&mut self, name: &str, space: Space, device: u32) {
        let memory = self.memory.entry(name.to_owned());
        memory.or_insert((space, Some(device), 0)).2 += 1;
    }

    fn statement(&mut self, index: usize, thread: &str, statement: &Statement) {
        let call = self.host(index, thread, &[]);
        let device = self.threads[thread].1;
        // The operations that a call waits for before it returns.
        let mut waits_for = Vec::new();
        match statement {
            Statement::Memory(declared) => {
                for (name, space, device) in declared {
                    self.memory.insert(name.text.clone(), (*space, *device, 0));
                }
            }
            Statement::Streams(declared) => {
                for (name, blocking, on) in declared {
                    let kind = match blocking {
                        Blocking::Blocking => Kind::Blocking,
                        Blocking::NonBlocking => Kind::NonBlocking,
                    };
                    let (name, device) = (name.text.clone(), on.unwrap_or(device));
                    self.streams.push(Stream {
                        name,
                        device,
                        kind,
                        destroyed: false,
                    });
                }
            }
            Statement::Operation(operation, stream) => {
                let stream = self.stream(stream, device);
                let node = self.operation(index, stream, call, &[]);
                match operation {
                    Operation::Kernel(touches) | Operation::HostFunction(touches) => {
                        self.touch_all(node, touches)
                    }
                    Operation::Allocate(name) => {
                        self.allocate(&name.text, Space::Dev, device);
                        let bytes = (name.text.clone(), self.memory[&name.text].2, Vec::new());
                        self.nodes[node].accesses.push((Write, bytes));
                    }
                    Operation::Free(region) => self.touch(node, Write, region),
                }
            }
            Statement::Copy { to, from, called } => {
                let spaces = [to, from].map(|region| self.memory[&region.memory.text].0);
                let [to_host, from_host] = spaces.map(|space| matches!(space, Space::Pin | Space::Page));
                match called {
                    Called::On(stream) => {
                        let stream = self.stream(stream, device);
                        let node = self.operation(index, stream, call, &[]);
                        self.touch(node, Read, from);
                        self.touch(node, Write, to);
                        if to_host && from_host {
                            waits_for.push(node);
                        }
                    }
                    Called::Synchronous => {
                        let stream = self.stream(&StreamName::Legacy, device);
                        let read = self.operation(index, stream, call, &[]);
                        self.touch(read, Read, from);
                        let write = self.operation(index, stream, call, &[]);
                        self.touch(write, Write, to);
                        if spaces[1] == Space::Page && !to_host {
                            waits_for.push(read);
                        } else if to_host || from_host {
                            waits_for.push(write);
                        }
                    }
                }
            }
            Statement::CopyPeer { to, from, called } => {
                let node = match called {
                    Called::On(stream) => {
                        let stream = self.stream(stream, device);
                        self.operation(index, stream, call, &[])
                    }
                    Called::Synchronous => {
                        let devices = [to, from].map(|region| {
                            region
                                .device
                                .or(self.memory[&region.memory.text].1)
                                .unwrap_or(device)
                        });
                        let stream = self.stream(&StreamName::Legacy, device);
                        let held = devices.map(|device| self.device_holds(device)).concat();
                        let node = self.operation(index, stream, call, &held);
                        self.barriers.push((node, devices));
                        node
                    }
                };
                self.touch(node, Read, from);
                self.touch(node, Write, to);
            }
            Statement::Fill { to, called } => {
                let space = self.memory[&to.memory.text].0;
                let stream = match called {
                    Called::On(stream) => self.stream(stream, device),
                    Called::Synchronous => self.stream(&StreamName::Legacy, device),
                };
                let node = self.operation(index, stream, call, &[]);
                self.touch(node, Write, to);
                if *called == Called::Synchronous && matches!(space, Space::Pin | Space::Man) {
                    waits_for.push(node);
                }
            }
            Statement::Record { event, stream } => {
                let stream = self.stream(stream, device);
                let node = self.operation(index, stream, call, &[]);
                self.events.insert(event.text.clone(), node);
            }
            Statement::Wait { stream, event } => {
                let stream = self.stream(stream, device);
                let record: Vec<Node> = self.events.get(&event.text).copied().into_iter().collect();
                self.operation(index, stream, call, &record);
            }
            Statement::SynchronizeEvent(event) => waits_for.extend(self.events.get(&event.text)),
            Statement::SynchronizeStream(stream) => {
                let stream = self.stream(stream, device);
                waits_for = self.held(stream);
            }
            Statement::SynchronizeDevice => waits_for = self.device_holds(device),
            Statement::Host(touches) | Statement::Foreign(touches) => self.touch_all(call, touches),
            Statement::BeginForeign { touches, request } => {
                let agent = self.node(index, Place::Host, &[call]);
                self.touch_all(agent, touches);
                self.requests.insert(request.text.clone(), Some(agent));
            }
            Statement::EndForeign(request) => {
                waits_for.extend(self.requests.insert(request.text.clone(), None).flatten());
            }
            Statement::Allocate(name, space) => self.allocate(&name.text, *space, device),
            Statement::Release(_, region) => self.touch(call, Write, region),
            Statement::SetDevice(device) => self.threads.get_mut(thread).unwrap().1 = *device,
            Statement::Join(name) => {
                waits_for.extend(self.threads.remove(&name.text).and_then(|(last, _)| last))
            }
            Statement::DestroyStream(name) => {
                let stream = self.stream(&StreamName::Named(name.clone()), device);
                self.streams[stream].destroyed = true;
            }
            Statement::DestroyEvent(event) => {
                self.events.remove(&event.text);
            }
        }
        if !waits_for.is_empty() && self.threads.contains_key(thread) {
            self.host(index, thread, &waits_for);
        }
    }
}
