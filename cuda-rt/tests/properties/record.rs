//! A driver that writes down what passes through it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_rt::checker::Race;
use cuda_rt::driver::{
    Communicator, DeviceAddress, Driver, DriverResult, ForeignUse, Hint, HostMemory, MemoryInfo,
    MemoryPoolStats, PeerAccess, Properties, RawEvent, RawGraph, RawNode, RawPeer, RawStream, Simulated,
};
use cuda_rt::kernel::{Kernel, LaunchShape, ParameterKind};
use cuda_rt::simulator::{SimConfig, SimDriver};

use crate::log::{Call, Direction, Entry, Launch, Life, Log, Parameter, Place, Value};

/// One log for all devices of a program, with the lives that are there now, by address.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(crate) log: Log,
    live: BTreeMap<u64, Life>,
}

impl Tape {
    fn begin(&mut self, address: u64, bytes: usize) -> Life {
        self.log.lives.push(bytes as u64);
        let life = self.log.lives.len() - 1;
        // What a graph held there ended with it, which no call says.
        self.live
            .retain(|start, _| !(address..address + bytes as u64).contains(start));
        self.live.insert(address, life);
        life
    }

    fn end(&mut self, address: u64) -> Life {
        self.live.remove(&address).expect("it is live")
    }

    fn place(&self, address: u64) -> Place {
        let (start, life) = self
            .live
            .range(..=address)
            .next_back()
            .expect("memory of the program");
        let place = Place {
            life: *life,
            offset: address - start,
        };
        assert!(
            place.offset < self.log.lives[place.life],
            "{address:#x} is in no block"
        );
        place
    }
}

/// A simulated device whose calls are written down, under one lock, so that the log's order is that
/// of the calls.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Arc<SimDriver>,
    device: usize,
    tape: Arc<Mutex<Tape>>,
}

impl Recorder {
    pub(crate) fn new(config: SimConfig, device: usize, tape: &Arc<Mutex<Tape>>) -> Arc<Self> {
        let (inner, tape) = (SimDriver::new(config), Arc::clone(tape));
        Arc::new(Self { inner, device, tape })
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().expect("no call panics")
    }

    /// Makes a call and, if it succeeds, writes down what `entry` says of it.
    fn record<R>(
        &self,
        call: impl FnOnce(&SimDriver) -> DriverResult<R>,
        entry: impl FnOnce(&mut Tape, &R) -> Option<Call>,
    ) -> DriverResult<R> {
        let mut tape = self.tape();
        let result = call(&self.inner)?;
        if let Some(call) = entry(&mut tape, &result) {
            let device = self.device;
            tape.log.entries.push(Entry { device, call });
        }
        Ok(result)
    }
}

fn address(host: NonNull<c_void>) -> u64 {
    host.addr().get() as u64
}

/// The bytes of a parameter, or the place of a buffer that is not empty.
///
/// # Safety
/// As `Driver::launch` says of `parameters`.
unsafe fn parameters(tape: &Tape, kernel: &Kernel, parameters: &[*const c_void]) -> Vec<Parameter> {
    let described = kernel.parameters;
    let number = |i: usize| {
        // SAFETY: the caller's: addresses and lengths are live `u64`s.
        unsafe { parameters[i].cast::<u64>().read_unaligned() }
    };
    let one = |i: usize| match described[i].kind {
        ParameterKind::Read { .. } | ParameterKind::Write { .. } if number(i + 1) > 0 => {
            Parameter::Address(tape.place(number(i)))
        }
        // SAFETY: the caller's: a live value of that size.
        _ => Parameter::Value(unsafe { Value::copied(parameters[i], described[i].size_bytes) }),
    };
    (0..described.len()).map(one).collect()
}

macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => { $(
        fn $name(&self, $($arg: $type),*) -> $result {
            self.inner.$name($($arg),*)
        }
    )* };
}

macro_rules! record {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty, |$tape:pat_param, $made:pat_param| $entry:expr;)*) => { $(
        unsafe fn $name(&self, $($arg: $type),*) -> DriverResult<$result> {
            // SAFETY: the caller's.
            self.record(|inner| unsafe { inner.$name($($arg),*) }, |$tape, $made| $entry)
        }
    )* };
}

// SAFETY: as the simulated device, to which every call is passed on as it is.
unsafe impl Driver for Recorder {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn simulator(&self) -> Option<&dyn Simulated> {
        Driver::simulator(&*self.inner)
    }

    fn hint(&self, note: Hint<'_>) {
        let mut tape = self.tape();
        if let Hint::HostAccess {
            address: start,
            bytes: len,
            passed,
        } = note
        {
            // SAFETY: page-locked memory that is the host's at this moment, which is what the note
            // says; initialised (PINNED-2).
            let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>().as_ptr(), len) }.to_vec();
            let place = tape.place(address(start));
            let call = match passed.during {
                "Device::pinned" | "Stream::adopt" | "Handoff::ready" => Call::HostWrote { to: place, bytes },
                _ => Call::HostSees { from: place, bytes },
            };
            tape.log.entries.push(Entry {
                device: self.device,
                call,
            });
        }
        self.inner.hint(note);
    }

    unsafe fn copy_peer(
        &self,
        _: (RawPeer, DeviceAddress),
        _: (RawPeer, DeviceAddress),
        _: usize,
        _: RawStream,
    ) -> DriverResult<()> {
        unreachable!("plans exchange pinned memory only")
    }

    fn communicator(&self, _: &[RawPeer]) -> DriverResult<Box<dyn Communicator>> {
        unreachable!("plans have no collectives")
    }

    forward! {
        fn is_checked() -> bool;
        fn races() -> Vec<Race>;
        fn memory_info() -> DriverResult<MemoryInfo>;
        fn pool_stats() -> DriverResult<MemoryPoolStats>;
        fn reset_pool_peaks() -> DriverResult<()>;
        fn set_release_threshold(bytes: u64) -> DriverResult<()>;
        fn trim_pool(keep_bytes: u64) -> DriverResult<()>;
        fn peer() -> RawPeer;
        fn peer_access(peer: RawPeer) -> DriverResult<PeerAccess>;
        fn prepare(kernel: &'static Kernel) -> DriverResult<()>;
    }

    fn foreign(
        &self,
        _name: &'static str,
        _stream: RawStream,
        _uses: &[ForeignUse],
        _body: &mut dyn FnMut(),
    ) -> DriverResult<()> {
        unreachable!("plans make no foreign calls")
    }

    fn create_stream(&self, priority: i32) -> DriverResult<RawStream> {
        self.record(
            |inner| inner.create_stream(priority),
            |_, stream| Some(Call::CreateStream(stream.0)),
        )
    }

    fn create_event(&self, timing: bool) -> DriverResult<RawEvent> {
        self.record(
            |inner| inner.create_event(timing),
            |_, event| {
                Some(Call::CreateEvent {
                    event: event.0,
                    timing,
                })
            },
        )
    }

    unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode> {
        // SAFETY: the caller's.
        unsafe { self.inner.captured_node(stream) }
    }

    unsafe fn update_graph(&self, _graph: RawGraph, _stream: RawStream) -> DriverResult<()> {
        unreachable!("plans update no graphs")
    }

    unsafe fn set_launch(
        &self,
        _graph: RawGraph,
        _node: RawNode,
        _kernel: &'static Kernel,
        _shape: &LaunchShape,
        _parameters: &[*const c_void],
    ) -> DriverResult<()> {
        unreachable!("plans update no graphs")
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
        // SAFETY: the caller's.
        unsafe { self.inner.elapsed_ms(start, end) }
    }

    record! {
        fn destroy_stream(stream: RawStream) -> (), |_, ()| Some(Call::DestroyStream(stream.0));
        fn synchronize_stream(stream: RawStream) -> (), |_, ()| Some(Call::SynchronizeStream(stream.0));
        fn wait_event(stream: RawStream, event: RawEvent) -> (),
            |_, ()| Some(Call::Wait { stream: stream.0, event: event.0 });
        fn destroy_event(event: RawEvent) -> (), |_, ()| Some(Call::DestroyEvent(event.0));
        fn record_event(event: RawEvent, stream: RawStream) -> (),
            |_, ()| Some(Call::Record { event: event.0, stream: stream.0 });
        fn query_event(event: RawEvent) -> bool, |_, done| done.then_some(Call::SeenDone(event.0));
        fn synchronize_event(event: RawEvent) -> (), |_, ()| Some(Call::SynchronizeEvent(event.0));
        fn alloc(bytes: usize, stream: RawStream) -> DeviceAddress,
            |tape, address| Some(Call::Alloc { life: tape.begin(address.0, bytes), stream: stream.0 });
        fn free(address: DeviceAddress, stream: RawStream) -> (),
            |tape, ()| Some(Call::Free { life: tape.end(address.0), stream: stream.0 });
        fn register_host(memory: &HostMemory) -> (),
            |tape, ()| Some(Call::Register(tape.begin(address(memory.address()), memory.len_bytes())));
        fn unregister_host(memory: &HostMemory) -> (),
            |tape, ()| Some(Call::Unregister(tape.end(address(memory.address()))));
        fn copy_to_device(destination: DeviceAddress, source: NonNull<c_void>, bytes: usize, stream: RawStream) -> (),
            |tape, ()| (bytes > 0).then(|| Call::Copy {
                direction: Direction::ToDevice,
                to: tape.place(destination.0),
                from: tape.place(address(source)),
                bytes,
                stream: stream.0,
            });
        fn copy_to_host(destination: NonNull<c_void>, source: DeviceAddress, bytes: usize, stream: RawStream) -> (),
            |tape, ()| (bytes > 0).then(|| Call::Copy {
                direction: Direction::ToHost,
                to: tape.place(address(destination)),
                from: tape.place(source.0),
                bytes,
                stream: stream.0,
            });
        fn copy(destination: DeviceAddress, source: DeviceAddress, bytes: usize, stream: RawStream) -> (),
            |tape, ()| (bytes > 0).then(|| Call::Copy {
                direction: Direction::Within,
                to: tape.place(destination.0),
                from: tape.place(source.0),
                bytes,
                stream: stream.0,
            });
        fn fill(destination: DeviceAddress, pattern: &[u8], count: usize, stream: RawStream) -> (),
            |tape, ()| (count > 0).then(|| Call::Fill {
                to: tape.place(destination.0),
                pattern: pattern.to_vec(),
                count,
                stream: stream.0,
            });
        fn launch(
            kernel: &'static Kernel,
            shape: &LaunchShape,
            values: &[*const c_void],
            stream: RawStream
        ) -> (), |tape, ()| {
            // SAFETY: the caller's.
            let parameters = unsafe { parameters(tape, kernel, values) };
            let launch = Launch { kernel, shape: *shape, parameters };
            Some(Call::Launch { launch, stream: stream.0 })
        };
        fn begin_capture(stream: RawStream) -> (), |_, ()| Some(Call::BeginCapture(stream.0));
        fn end_capture(stream: RawStream) -> RawGraph,
            |_, graph| Some(Call::EndCapture { stream: stream.0, graph: graph.0 });
        fn launch_graph(graph: RawGraph, stream: RawStream) -> (),
            |_, ()| Some(Call::LaunchGraph { graph: graph.0, stream: stream.0 });
        fn destroy_graph(graph: RawGraph) -> (), |_, ()| Some(Call::DestroyGraph(graph.0));
    }
}
