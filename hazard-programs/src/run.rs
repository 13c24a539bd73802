//! Runs a program by the [rules](crate::rules): gives its names memory, streams, events, threads
//! and requests.

use std::collections::HashMap;

use super::layout::Layout;
use super::statement::{
    Blocking, Called, Name, Operation, Program, ProgramError, Region, Space, Statement, Step, StreamName,
    Touch,
};
use crate::rules;
use crate::rules::{DeviceId, Machine, StreamId};
use cuda_rt_checker as check;
use cuda_rt_checker::{ActorId, VectorClock};
use cuda_rt_driver::ActorKind;
use cuda_rt_driver::{AccessKind, Race, Site};

type Result<T> = std::result::Result<T, ProgramError>;

pub(super) fn run(program: &Program) -> Result<Vec<Race>> {
    let mut regions = Vec::new();
    for step in &program.steps {
        step.statement.regions(&mut |region| regions.push(region));
    }
    let declared = program.steps.iter().flat_map(|step| match &step.statement {
        Statement::Memory(declared) => declared.iter().map(|(name, ..)| name).collect(),
        Statement::Allocate(name, _) | Statement::Operation(Operation::Allocate(name), _) => vec![name],
        _ => Vec::new(),
    });
    let layout = Layout::new(regions.into_iter(), declared.map(|name| name.text.as_str()));
    let mut run = Run::new(layout);
    for (index, step) in program.steps.iter().enumerate() {
        run.step(index, step).map_err(|error| error.in_statement(index))?;
    }
    Ok(run.machine.checker.races().to_vec())
}

impl Statement {
    /// Calls `each` with every region that the statement names.
    fn regions<'a>(&'a self, each: &mut impl FnMut(&'a Region)) {
        match self {
            Self::Operation(Operation::Kernel(touches) | Operation::HostFunction(touches), _)
            | Self::Host(touches)
            | Self::Foreign(touches)
            | Self::BeginForeign { touches, .. } => touches.iter().for_each(|touch| each(&touch.region)),
            Self::Operation(Operation::Free(region), _)
            | Self::Release(_, region)
            | Self::Fill { to: region, .. } => each(region),
            Self::Copy { to, from, .. } | Self::CopyPeer { to, from, .. } => {
                each(to);
                each(from);
            }
            _ => {}
        }
    }
}

#[derive(Clone, Copy)]
struct Thread {
    actor: ActorId,
    /// The thread's current device, 0 at first.
    device: u32,
}

enum Named {
    Live(StreamId),
    Destroyed,
}

struct Run {
    machine: Machine,
    layout: Layout,
    devices: HashMap<u32, DeviceId>,
    memory: HashMap<String, (Space, Option<u32>)>,
    streams: HashMap<String, Named>,
    /// The work that the latest record of each event covers.
    events: HashMap<String, VectorClock>,
    threads: HashMap<String, Thread>,
    main: Thread,
    /// Foreign agents that have begun; `None` after a wait for them.
    requests: HashMap<String, Option<ActorId>>,
}

/// A running statement, and its thread.
#[derive(Clone, Copy)]
struct Call {
    thread: Thread,
    site: Site,
}

impl Call {
    fn operation(self, name: &'static str) -> check::Operation {
        check::Operation {
            name,
            site: self.site,
        }
    }
}

impl Run {
    fn new(layout: Layout) -> Self {
        let mut machine = Machine::default();
        let main = Thread {
            actor: machine.thread("main"),
            device: 0,
        };
        Self {
            machine,
            layout,
            main,
            devices: HashMap::new(),
            memory: HashMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            threads: HashMap::new(),
            requests: HashMap::new(),
        }
    }

    fn step(&mut self, index: usize, step: &Step) -> Result<()> {
        let thread = self.thread(step.thread.as_ref());
        self.machine.checker.step(thread.actor);
        let call = Call {
            thread,
            site: Site::Statement(index),
        };
        self.statement(call, step.thread.as_ref(), &step.statement)
    }

    /// The named thread. A new thread starts after all steps of the main thread so far.
    fn thread(&mut self, name: Option<&Name>) -> Thread {
        let Some(name) = name else { return self.main };
        if let Some(thread) = self.threads.get(&name.text) {
            return *thread;
        }
        let actor = self.machine.thread(&name.text);
        self.machine.checker.wait_event(actor, self.main.actor);
        // Later steps of the main thread are not ordered before the new thread.
        self.machine.checker.step(self.main.actor);
        let thread = Thread { actor, device: 0 };
        self.threads.insert(name.text.clone(), thread);
        thread
    }

    fn device(&mut self, ordinal: u32) -> DeviceId {
        *self
            .devices
            .entry(ordinal)
            .or_insert_with(|| self.machine.device(ordinal))
    }

    fn stream(&mut self, call: Call, stream: &StreamName) -> Result<StreamId> {
        match stream {
            StreamName::Legacy => {
                let device = self.device(call.thread.device);
                Ok(self.machine.legacy(device))
            }
            StreamName::Named(name) => self.named_stream(name),
        }
    }

    fn named_stream(&self, name: &Name) -> Result<StreamId> {
        match self.streams.get(&name.text) {
            Some(Named::Live(stream)) => Ok(*stream),
            Some(Named::Destroyed) => Err(ProgramError::new(
                name.column,
                format!("stream `{}` was destroyed", name.text),
            )),
            None => Err(ProgramError::new(
                name.column,
                format!("there is no stream `{}`", name.text),
            )),
        }
    }

    fn space(&self, memory: &Name) -> Result<(Space, Option<u32>)> {
        let found = self.memory.get(&memory.text).copied();
        found.ok_or_else(|| ProgramError::new(memory.column, format!("there is no memory `{}`", memory.text)))
    }

    fn touch(&mut self, actor: ActorId, operation: check::Operation, kind: AccessKind, region: &Region) {
        self.machine
            .access(actor, self.layout.bytes(region), kind, operation);
    }

    fn touch_all(&mut self, actor: ActorId, operation: check::Operation, touches: &[Touch]) {
        touches
            .iter()
            .for_each(|touch| self.touch(actor, operation, touch.kind, &touch.region));
    }

    /// Makes the calling thread wait for all work that `stream` holds.
    fn synchronize(&mut self, call: Call, stream: StreamId) {
        let contents = self.machine.contents(stream);
        self.machine.checker.wait(call.thread.actor, &contents);
    }

    fn statement(&mut self, call: Call, thread: Option<&Name>, statement: &Statement) -> Result<()> {
        let mut unknown = None;
        statement.regions(&mut |region| unknown = unknown.take().or(self.space(&region.memory).err()));
        if let Some(error) = unknown {
            return Err(error);
        }
        let host = call.thread.actor;
        match statement {
            Statement::Memory(declared) => {
                for (name, space, device) in declared {
                    if self.memory.insert(name.text.clone(), (*space, *device)).is_some() {
                        let message = format!("memory `{}` is there already", name.text);
                        return Err(ProgramError::new(name.column, message));
                    }
                }
            }
            Statement::Streams(declared) => {
                for (name, blocking, device) in declared {
                    if let Some(Named::Live(_)) = self.streams.get(&name.text) {
                        let message = format!("stream `{}` is there already", name.text);
                        return Err(ProgramError::new(name.column, message));
                    }
                    let device = self.device(device.unwrap_or(call.thread.device));
                    let blocking = match blocking {
                        Blocking::Blocking => rules::StreamKind::Blocking,
                        Blocking::NonBlocking => rules::StreamKind::NonBlocking,
                    };
                    let stream = self.machine.stream(&name.text, device, blocking);
                    self.streams.insert(name.text.clone(), Named::Live(stream));
                }
            }
            Statement::Operation(operation, stream) => {
                let stream = self.stream(call, stream)?;
                self.operation(call, operation, stream)?;
            }
            Statement::Copy { to, from, called } => self.copy(call, to, from, called)?,
            Statement::CopyPeer { to, from, called } => self.copy_peer(call, to, from, called)?,
            Statement::Fill { to, called } => self.fill(call, to, called)?,
            Statement::Record { event, stream } => {
                let stream = self.stream(call, stream)?;
                // A record is work of its stream. In the legacy stream it waits for the blocking
                // streams, and they wait for it.
                let actor = self.machine.issue(stream, host);
                self.events
                    .insert(event.text.clone(), self.machine.checker.clock(actor).clone());
            }
            Statement::Wait { stream, event } => {
                let stream = self.stream(call, stream)?;
                let actor = self.machine.issue(stream, host);
                if let Some(record) = self.events.get(&event.text) {
                    self.machine.checker.wait(actor, record);
                }
            }
            Statement::SynchronizeEvent(event) => {
                if let Some(record) = self.events.get(&event.text) {
                    self.machine.checker.wait(host, record);
                }
            }
            Statement::SynchronizeStream(stream) => {
                let stream = self.stream(call, stream)?;
                self.synchronize(call, stream);
            }
            Statement::SynchronizeDevice => {
                let device = self.device(call.thread.device);
                let contents = self.machine.device_contents(device);
                self.machine.checker.wait(host, &contents);
            }
            Statement::Host(touches) => self.touch_all(host, call.operation("host"), touches),
            Statement::Foreign(touches) => self.touch_all(host, call.operation("ext"), touches),
            Statement::BeginForeign { touches, request } => {
                let agent = self
                    .machine
                    .checker
                    .actor(ActorKind::ForeignAgent, format!("#{}", request.text));
                self.machine.checker.wait_event(agent, host);
                self.touch_all(agent, call.operation("extA"), touches);
                self.requests.insert(request.text.clone(), Some(agent));
            }
            Statement::EndForeign(request) => match self.requests.get_mut(&request.text) {
                Some(agent) => {
                    if let Some(agent) = agent.take() {
                        self.machine.checker.wait_event(host, agent);
                    }
                }
                None => {
                    let message = format!("there is no request `#{}`", request.text);
                    return Err(ProgramError::new(request.column, message));
                }
            },
            Statement::Allocate(memory, space) => self.allocate(call, memory, *space),
            Statement::Release(name, region) => {
                self.touch(host, call.operation(name), AccessKind::Write, region)
            }
            Statement::SetDevice(ordinal) => match thread {
                None => self.main.device = *ordinal,
                Some(name) => self.threads.get_mut(&name.text).expect("it runs").device = *ordinal,
            },
            Statement::Join(name) => {
                // A later thread of the same name is a new thread.
                if let Some(joined) = self.threads.remove(&name.text) {
                    self.machine.checker.wait_event(host, joined.actor);
                }
            }
            Statement::DestroyStream(name) => {
                // The stream's work goes on, and waits for the device cover it.
                self.named_stream(name)?;
                self.streams.insert(name.text.clone(), Named::Destroyed);
            }
            Statement::DestroyEvent(event) => {
                self.events.remove(&event.text);
            }
        }
        Ok(())
    }

    /// Allocates new memory for a name: earlier uses of the name were of other bytes. An undeclared
    /// name becomes declared.
    fn allocate(&mut self, call: Call, memory: &Name, space: Space) {
        let declared = (space, Some(call.thread.device));
        self.memory.entry(memory.text.clone()).or_insert(declared);
        self.machine.checker.forget(self.layout.whole(&memory.text));
    }

    fn operation(&mut self, call: Call, operation: &Operation, stream: StreamId) -> Result<()> {
        if let Operation::Allocate(memory) = operation {
            self.allocate(call, memory, Space::Dev);
        }
        let actor = self.machine.issue(stream, call.thread.actor);
        match operation {
            Operation::Kernel(touches) => self.touch_all(actor, call.operation("kernel"), touches),
            Operation::HostFunction(touches) => self.touch_all(actor, call.operation("hostfn"), touches),
            Operation::Allocate(memory) => {
                let bytes = self.layout.whole(&memory.text);
                self.machine
                    .access(actor, bytes, AccessKind::Write, call.operation("mallocA"));
            }
            Operation::Free(region) => self.touch(actor, call.operation("freeA"), AccessKind::Write, region),
        }
        Ok(())
    }

    /// Copies memory, by rules 6 and 7. Managed memory counts as the kind with the weaker promise.
    fn copy(&mut self, call: Call, to: &Region, from: &Region, called: &Called) -> Result<()> {
        let ((to_space, _), (from_space, _)) = (self.space(&to.memory)?, self.space(&from.memory)?);
        let host_to_host = to_space.is_host() && from_space.is_host();
        let (stream, name) = match called {
            Called::Synchronous => (self.stream(call, &StreamName::Legacy)?, "cpy"),
            Called::On(stream) => (self.stream(call, stream)?, "cpyA"),
        };
        let operation = call.operation(name);
        let actor = self.machine.issue(stream, call.thread.actor);
        self.touch(actor, operation, AccessKind::Read, from);
        let synchronous = *called == Called::Synchronous;
        if synchronous && from_space == Space::Page && !to_space.is_host() {
            // The copy is staged: on return the source was read, but the destination may not be
            // written yet.
            self.synchronize(call, stream);
            self.machine.checker.step(actor);
            self.touch(actor, operation, AccessKind::Write, to);
            return Ok(());
        }
        self.touch(actor, operation, AccessKind::Write, to);
        let waits = host_to_host || synchronous && (to_space.is_host() || from_space.is_host());
        if waits {
            self.synchronize(call, stream);
        }
        Ok(())
    }

    /// Copies between devices, by rule 12. The call does not wait: `cudaMemcpyPeer` is asynchronous
    /// with respect to the host.
    fn copy_peer(&mut self, call: Call, to: &Region, from: &Region, called: &Called) -> Result<()> {
        let (actor, name) = match called {
            Called::On(stream) => {
                let stream = self.stream(call, stream)?;
                (self.machine.issue(stream, call.thread.actor), "cpyPeerA")
            }
            Called::Synchronous => {
                let stream = self.stream(call, &StreamName::Legacy)?;
                let mut devices = Vec::new();
                for region in [to, from] {
                    let (_, declared) = self.space(&region.memory)?;
                    let ordinal = region.device.or(declared).unwrap_or(call.thread.device);
                    devices.push(self.device(ordinal));
                }
                (
                    self.machine.issue_barrier(stream, call.thread.actor, &devices),
                    "cpyPeer",
                )
            }
        };
        self.touch(actor, call.operation(name), AccessKind::Read, from);
        self.touch(actor, call.operation(name), AccessKind::Write, to);
        Ok(())
    }

    /// Fills memory, by rule 8.
    fn fill(&mut self, call: Call, to: &Region, called: &Called) -> Result<()> {
        let (space, _) = self.space(&to.memory)?;
        let (stream, name) = match called {
            Called::Synchronous => (self.stream(call, &StreamName::Legacy)?, "set"),
            Called::On(stream) => (self.stream(call, stream)?, "setA"),
        };
        let actor = self.machine.issue(stream, call.thread.actor);
        self.touch(actor, call.operation(name), AccessKind::Write, to);
        if *called == Called::Synchronous && matches!(space, Space::Pin | Space::Man) {
            self.synchronize(call, stream);
        }
        Ok(())
    }
}
