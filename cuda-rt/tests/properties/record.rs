//! A driver that records the calls that pass through it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_rt::checker::{AccessKind, Race};
use cuda_rt::driver::{
    Advice, Communicator, CopyExtent, DeviceAddress, DriverError, DriverResult, ForeignUse, HostFunction,
    HostMemory, Location, MemoryInfo, MemoryPoolStats, PeerAccess, Pitch, Properties, RawEvent, RawGraph,
    RawNode, RawPeer, RawStream,
};
use cuda_rt::driver::{Copies, Driver, Events, Graphs, Kernels, Managed, Memory, Peers, Streams};
use cuda_rt::driver::{Hint, Simulated, Tools, Trace};
use cuda_rt::driver::{KernelAttributes, SuggestedBlock};
use cuda_rt::kernel::{Kernel, LaunchShape, ParameterKind};
use cuda_rt::simulator::{SimConfig, SimDriver};

use crate::log::{Call, Direction, Entry, Launch, Life, Log, Parameter, Place, Value};

/// One log for all devices of a program, with the present lives by address.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    pub(crate) log: Log,
    live: BTreeMap<u64, Life>,
}

impl CallLog {
    fn begin(&mut self, address: u64, bytes: usize) -> Life {
        self.log.lives.push(bytes as u64);
        let life = self.log.lives.len() - 1;
        // A graph's memory ends with the graph; no call reports that.
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

/// A simulated device whose calls are recorded under one lock, so that the log has the order of the
/// calls.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Arc<SimDriver>,
    device: usize,
    calls: Arc<Mutex<CallLog>>,
}

impl Recorder {
    pub(crate) fn new(config: SimConfig, device: usize, calls: &Arc<Mutex<CallLog>>) -> Arc<Self> {
        let (inner, calls) = (SimDriver::new(config), Arc::clone(calls));
        Arc::new(Self { inner, device, calls })
    }

    fn calls(&self) -> MutexGuard<'_, CallLog> {
        self.calls.lock().expect("no call panics")
    }

    /// Makes a call. If the call succeeds, appends what `entry` returns for it.
    fn record<R>(
        &self,
        call: impl FnOnce(&SimDriver) -> DriverResult<R>,
        entry: impl FnOnce(&mut CallLog, &R) -> Option<Call>,
    ) -> DriverResult<R> {
        let mut calls = self.calls();
        let result = call(&self.inner)?;
        if let Some(call) = entry(&mut calls, &result) {
            let device = self.device;
            calls.log.entries.push(Entry { device, call });
        }
        Ok(result)
    }
}

fn address(host: NonNull<c_void>) -> u64 {
    host.addr().get() as u64
}

/// The bytes of a parameter, or the place of a non-empty buffer.
///
/// # Safety
/// As for `parameters` of `Kernels::launch`.
unsafe fn parameters(calls: &CallLog, kernel: &Kernel, parameters: &[*const c_void]) -> Vec<Parameter> {
    let described = kernel.parameters;
    let number = |i: usize| {
        // SAFETY: by this function's contract addresses and lengths are live `u64`s.
        unsafe { parameters[i].cast::<u64>().read_unaligned() }
    };
    let one = |i: usize| match described[i].kind {
        ParameterKind::Read { .. } | ParameterKind::Write { .. } if number(i + 1) > 0 => {
            Parameter::Address(calls.place(number(i)))
        }
        // SAFETY: by this function's contract the pointer is to a live value of that size.
        _ => Parameter::Value(unsafe { Value::copied(parameters[i], described[i].size_bytes) }),
    };
    (0..described.len()).map(one).collect()
}

// SAFETY: every call is passed on unchanged to the simulated device, which keeps the contract.
unsafe impl Driver for Recorder {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }
}

impl Streams for Recorder {
    cuda_rt::driver::stream_calls! { |this: &Recorder, call(&SimDriver)|
        create_stream(priority) => this.record(call, |_, stream| Some(Call::CreateStream(stream.0)));
        destroy_stream(stream) => this.record(call, |_, ()| Some(Call::DestroyStream(stream.0)));
        synchronize_stream(stream) => this.record(call, |_, ()| Some(Call::SynchronizeStream(stream.0)));
        wait_event(stream, event) => this.record(call, |_, ()| {
            Some(Call::Wait { stream: stream.0, event: event.0 })
        });
    }

    cuda_rt::driver::stream_calls! { |_this: &Recorder|
        query_stream(_stream) => unreachable!("plans ask events");
        launch_host_function(_stream, _function, _uses) => unreachable!("plans have no host functions");
        lose(_why) => unreachable!("plans have no host functions");
        foreign(_name, _stream, _uses, _body) => unreachable!("plans make no foreign calls");
    }
}

impl Events for Recorder {
    cuda_rt::driver::event_calls! { forward to |this: &Recorder| -> &SimDriver { &this.inner }; elapsed_ms }

    cuda_rt::driver::event_calls! { |this: &Recorder, call(&SimDriver)|
        create_event(timing) => this.record(call, |_, event| {
            Some(Call::CreateEvent { event: event.0, timing })
        });
        destroy_event(event) => this.record(call, |_, ()| Some(Call::DestroyEvent(event.0)));
        record_event(event, stream) => this.record(call, |_, ()| {
            Some(Call::Record { event: event.0, stream: stream.0 })
        });
        query_event(event) => this.record(call, |_, done| done.then_some(Call::SeenDone(event.0)));
        synchronize_event(event) => this.record(call, |_, ()| Some(Call::SynchronizeEvent(event.0)));
    }
}

impl Memory for Recorder {
    cuda_rt::driver::memory_calls! { forward to |this: &Recorder| -> &SimDriver { &this.inner };
        memory_info, pool_stats, reset_pool_peaks, set_release_threshold, trim_pool, mapped_address,
    }

    cuda_rt::driver::memory_calls! { |this: &Recorder, call(&SimDriver)|
        alloc(bytes, stream) => this.record(call, |calls, address| {
            Some(Call::Alloc { life: calls.begin(address.0, bytes), stream: stream.0 })
        });
        free(address, stream) => this.record(call, |calls, ()| {
            Some(Call::Free { life: calls.end(address.0), stream: stream.0 })
        });
        register_host(memory) => this.record(call, |calls, ()| {
            Some(Call::Register(calls.begin(address(memory.address()), memory.len_bytes())))
        });
        unregister_host(memory) => this.record(call, |calls, ()| {
            Some(Call::Unregister(calls.end(address(memory.address()))))
        });
    }
}

impl Managed for Recorder {
    cuda_rt::driver::managed_calls! { forward to |this: &Recorder| -> &SimDriver { &this.inner };
        alloc_managed, free_managed, prefetch, advise, while_mapped,
    }
}

impl Copies for Recorder {
    cuda_rt::driver::copy_calls! { |this: &Recorder, call(&SimDriver)|
        copy_to_device(destination, source, bytes, stream) => this.record(call, |calls, ()| {
            (bytes > 0).then(|| Call::Copy {
                direction: Direction::ToDevice,
                to: calls.place(destination.0),
                from: calls.place(address(source)),
                bytes,
                stream: stream.0,
            })
        });
        copy_to_host(destination, source, bytes, stream) => this.record(call, |calls, ()| {
            (bytes > 0).then(|| Call::Copy {
                direction: Direction::ToHost,
                to: calls.place(address(destination)),
                from: calls.place(source.0),
                bytes,
                stream: stream.0,
            })
        });
        copy(destination, source, bytes, stream) => this.record(call, |calls, ()| {
            (bytes > 0).then(|| Call::Copy {
                direction: Direction::Within,
                to: calls.place(destination.0),
                from: calls.place(source.0),
                bytes,
                stream: stream.0,
            })
        });
        fill(destination, pattern, count, stream) => this.record(call, |calls, ()| {
            (count > 0).then(|| Call::Fill {
                to: calls.place(destination.0),
                pattern: pattern.to_vec(),
                count,
                stream: stream.0,
            })
        });
        copy_rows_to_device(_to, _from, _extent, _stream) => unreachable!("plans copy whole ranges");
        copy_rows_to_host(_to, _from, _extent, _stream) => unreachable!("plans copy whole ranges");
        copy_rows(_to, _from, _extent, _stream) => unreachable!("plans copy whole ranges");
    }
}

impl Peers for Recorder {
    cuda_rt::driver::peer_calls! { forward to |this: &Recorder| -> &SimDriver { &this.inner }; peer, peer_access }

    cuda_rt::driver::peer_calls! { |_this: &Recorder|
        copy_peer(_to, _from, _bytes, _stream) => unreachable!("plans exchange pinned memory only");
        communicator(_ranks) => unreachable!("plans have no collectives");
    }
}

impl Kernels for Recorder {
    cuda_rt::driver::kernel_calls! { forward to |this: &Recorder| -> &SimDriver { &this.inner };
        prepare, kernel_attributes, max_active_blocks, suggest_block,
    }

    cuda_rt::driver::kernel_calls! { |this: &Recorder, call(&SimDriver)|
        launch(kernel, shape, values, stream) => this.record(call, |calls, ()| {
            // SAFETY: by the call's contract there is one value for each parameter, and the driver
            // accepted them.
            let parameters = unsafe { parameters(calls, kernel, values) };
            let launch = Launch { kernel, shape: *shape, parameters };
            Some(Call::Launch { launch, stream: stream.0 })
        });
    }

    cuda_rt::driver::kernel_calls! { |_this: &Recorder|
        launch_padded(_kernel, _shape, _values, _stream) => unreachable!("no value of a plan has padding");
    }
}

impl Graphs for Recorder {
    cuda_rt::driver::graph_calls! { forward to |this: &Recorder| -> &SimDriver { &this.inner }; captured_node }

    cuda_rt::driver::graph_calls! { |this: &Recorder, call(&SimDriver)|
        begin_capture(stream) => this.record(call, |_, ()| Some(Call::BeginCapture(stream.0)));
        end_capture(stream) => this.record(call, |_, graph| {
            Some(Call::EndCapture { stream: stream.0, graph: graph.0 })
        });
        launch_graph(graph, stream) => this.record(call, |_, ()| {
            Some(Call::LaunchGraph { graph: graph.0, stream: stream.0 })
        });
        destroy_graph(graph) => this.record(call, |_, ()| Some(Call::DestroyGraph(graph.0)));
    }

    cuda_rt::driver::graph_calls! { |_this: &Recorder|
        update_graph(_graph, _stream) => unreachable!("plans update no graphs");
        set_launch(_graph, _node, _kernel, _shape, _values) => unreachable!("plans update no graphs");
    }
}

// SAFETY: `begin_trace` returns the trace of `inner`, and this driver's streams are streams of
// `inner`.
unsafe impl Tools for Recorder {
    fn simulator(&self) -> Option<&dyn Simulated> {
        Tools::simulator(&*self.inner)
    }

    fn is_checked(&self) -> bool {
        self.inner.is_checked()
    }

    fn races(&self) -> Vec<Race> {
        self.inner.races()
    }

    fn hint(&self, note: Hint<'_>) {
        let mut calls = self.calls();
        if let Hint::HostAccess {
            address: start,
            bytes: len,
            access,
            passed,
        } = note
        {
            // SAFETY: the hint says that the host may read this page-locked memory now; it is
            // initialised (PINNED-2).
            let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>().as_ptr(), len) }.to_vec();
            let place = calls.place(address(start));
            let call = match passed.during {
                _ if access == AccessKind::Read => Call::HostReads { from: place, bytes },
                "Device::pinned" | "Shared::new" | "end of Graph::host" | "Stream::adopt"
                | "Handoff::ready" => Call::HostWrote { to: place, bytes },
                _ => Call::HostSees { from: place, bytes },
            };
            calls.log.entries.push(Entry {
                device: self.device,
                call,
            });
        }
        self.inner.hint(note);
    }

    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        self.inner.begin_trace()
    }
}
