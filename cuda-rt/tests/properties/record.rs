//! A driver that records the calls that pass through it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_rt::checker::{AccessKind, Race};
use cuda_rt::driver::{
    Advice, Communicator, CopyExtent, DeviceAddress, DriverError, DriverResult, ForeignUse, HostFunction,
    HostMemory, Location, MemoryInfo, MemoryPoolStats, PeerAccess, Pitch, Properties, RawEvent, RawGraph,
    RawNode, RawPeer, RawStream,
};
use cuda_rt::driver::{Copies, Driver, Events, Graphs, Kernels, Managed, Memory, Peers, Streams};
use cuda_rt::driver::{FunctionLaunch, KernelAttributes, RawFunction, RawModule, SuggestedBlock};
use cuda_rt::driver::{Hint, Simulated, Tools, Trace};
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

thread_local! {
    /// The managed memory that the closure of this thread may write, as address and bytes.
    static WRITTEN: Cell<Option<(NonNull<c_void>, usize)>> = const { Cell::new(None) };
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
    /// Two devices of one host.
    pub(crate) fn two(config: SimConfig, calls: &Arc<Mutex<CallLog>>) -> [Arc<Self>; 2] {
        let first = SimDriver::new(config);
        let second = first.another();
        let recorder = |(device, inner)| {
            let calls = Arc::clone(calls);
            Arc::new(Self { inner, device, calls })
        };
        [(0, first), (1, second)].map(recorder)
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
        query_stream(stream) => this.record(call, |_, done| done.then_some(Call::SeenStreamDone(stream.0)));
        wait_event(stream, event) => this.record(call, |_, ()| {
            Some(Call::Wait { stream: stream.0, event: event.0 })
        });
        // Each host function copies. In a replay a copy of the stream does its work: a thread of
        // the host that races would be a race of the test itself.
        launch_host_function(stream, _function, uses) => this.record(call, |calls, ()| {
            let [from, to] = uses else {
                assert!(uses.is_empty(), "host functions copy: {uses:?}");
                return None;
            };
            assert!(!from.writes && to.writes && from.bytes == to.bytes, "host functions copy");
            Some(Call::Copy {
                direction: Direction::Within,
                to: calls.place(to.address.0),
                from: calls.place(from.address.0),
                bytes: to.bytes,
                stream: stream.0,
            })
        });
    }

    cuda_rt::driver::stream_calls! { |_this: &Recorder|
        lose(_why) => unreachable!("no host function of a plan panics");
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
        alloc_write_combined, free_write_combined,
    }

    cuda_rt::driver::memory_calls! { |this: &Recorder, call(&SimDriver)|
        alloc(bytes, stream) => this.record(call, |calls, address| {
            Some(Call::Alloc { life: calls.begin(address.0, bytes), stream: stream.0 })
        });
        free(address, stream) => this.record(call, |calls, ()| {
            Some(Call::Free { life: calls.end(address.0), stream: stream.0 })
        });
        note_free(address, stream) => this.record(call, |calls, ()| {
            Some(Call::NoteFree { life: calls.place(address.0).life, stream: stream.0 })
        });
        note_alloc(address, stream) => this.record(call, |calls, ()| {
            Some(Call::NoteAlloc { life: calls.place(address.0).life, stream: stream.0 })
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
        advise,
    }

    cuda_rt::driver::managed_calls! { |this: &Recorder, call(&SimDriver)|
        alloc_managed(bytes) => this.record(call, |calls, start| {
            Some(Call::AllocManaged(calls.begin(address(*start), bytes)))
        });
        free_managed(start) => this.record(call, |calls, ()| {
            Some(Call::FreeManaged(calls.end(address(start))))
        });
        prefetch(start, bytes, to, stream) => this.record(call, |calls, ()| {
            Some(Call::Prefetch { at: calls.place(address(start)), bytes, to, stream: stream.0 })
        });
        while_mapped(_body) => {
            call(&this.inner)?;
            if let Some((start, len)) = WRITTEN.take() {
                let mut calls = this.calls();
                let to = calls.place(address(start));
                // SAFETY: the closure had this managed memory as a slice to write, and has ended.
                // Its buffer is still borrowed.
                let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>().as_ptr(), len) };
                let call = Call::HostWrote { to, bytes: bytes.to_vec() };
                calls.log.entries.push(Entry { device: this.device, call });
            }
            Ok(())
        };
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
        copy_rows_to_device(to, from, extent, stream) => this.record(call, |calls, ()| {
            Some(Call::CopyRows {
                direction: Direction::ToDevice,
                to: (calls.place(to.0.0), to.1),
                from: (calls.place(address(from.0)), from.1),
                extent,
                stream: stream.0,
            })
        });
        copy_rows_to_host(to, from, extent, stream) => this.record(call, |calls, ()| {
            Some(Call::CopyRows {
                direction: Direction::ToHost,
                to: (calls.place(address(to.0)), to.1),
                from: (calls.place(from.0.0), from.1),
                extent,
                stream: stream.0,
            })
        });
        copy_rows(to, from, extent, stream) => this.record(call, |calls, ()| {
            Some(Call::CopyRows {
                direction: Direction::Within,
                to: (calls.place(to.0.0), to.1),
                from: (calls.place(from.0.0), from.1),
                extent,
                stream: stream.0,
            })
        });
    }
}

impl Peers for Recorder {
    cuda_rt::driver::peer_calls! { forward to |this: &Recorder| -> &SimDriver { &this.inner }; peer, peer_access }

    cuda_rt::driver::peer_calls! { |this: &Recorder, call(&SimDriver)|
        copy_peer(to, from, bytes, stream) => this.record(call, |calls, ()| {
            Some(Call::CopyPeer {
                to_peer: to.0 != this.inner.peer(),
                to: calls.place(to.1.0),
                from: calls.place(from.1.0),
                bytes,
                stream: stream.0,
            })
        });
    }

    cuda_rt::driver::peer_calls! { |_this: &Recorder|
        communicator(_ranks) => unreachable!("plans have no collectives");
    }
}

impl Kernels for Recorder {
    cuda_rt::driver::kernel_calls! { forward to |this: &Recorder| -> &SimDriver { &this.inner };
        prepare, kernel_attributes, max_active_blocks, suggest_block, load_module, unload_module,
        module_function,
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
        launch_function(_function, _launch, _stream) => unreachable!("plans load no modules");
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
            passed,
            ..
        } = note
            && passed.during == "ManagedBuffer::host_mut"
        {
            // The elements may be uninitialised now; the end of the closure is recorded.
            WRITTEN.set(Some((start, len)));
        } else if let Hint::HostAccess {
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
                "Device::pinned" | "Shared::new" | "end of Graph::host" | "end of Kept::host"
                | "Stream::adopt" | "Handoff::ready" => Call::HostWrote { to: place, bytes },
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
