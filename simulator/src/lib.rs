//! The simulated device: no GPU, but real bytes, real kernels and every order that CUDA allows.
//!
//! - **Memory is real bytes** of the host, and an address is a device address. Unwritten memory
//!   holds junk. Freed memory is overwritten when the free runs, and is soon given out again.
//! - **Order is adversarial** ([`Order`]). Operations wait in their streams' queues. They run under
//!   one lock, on the thread that makes a call: when someone waits for them or queries them, or
//!   when the seed says so. A missing edge gives wrong bytes. The same seed and the same calls give
//!   the same bytes. Messages contain the seed.
//! - **Time is modelled** ([`Model`]). The time at which an operation would run on the engines of a
//!   real device follows from the work that it waits for. It is independent of the order above.
//! - **Races are found** by the [checker](cuda_rt_checker) that follows every device, in whatever
//!   order it runs. They are denied unless [`SimConfig::check`] says otherwise.
//! - **Errors on demand** ([`Simulator::fail_nth`]), for each [`Call`].
//! - **Several devices** ([`SimDriver::another`](cuda_rt_checker::Checked::another)) share one
//!   order and one checker. A missing edge between two devices shows in the same way as between two
//!   streams.
//!
//! Behaviour as in CUDA, and where it differs:
//!
//! - **stale handles are errors**, also those that CUDA would not notice
//! - **a panic in a kernel loses the device (`LAUNCH_FAILED`)**, and one elsewhere too (`UNKNOWN`)
//! - **host functions run on one thread**, and a call gives a running function a moment to end
//! - **driver calls of a simulated kernel fail (`NOT_PERMITTED`)**; the kernel must not wait for a
//!   thread that makes driver calls
//! - **copies and kernels fail on memory that the device does not reach**; a range beyond its block
//!   but inside the device's memory is not noticed
//! - **priorities of streams** change neither order nor time
//! - **a graph's nodes run in any order its edges allow**, other work only beside host functions

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

mod clock;
mod collective;
mod config;
mod copies;
mod core;
mod event;
mod fault;
mod graph;
mod graph_update;
mod host_function;
mod launch;
mod managed;
mod memory;
mod module;
mod occupancy;
mod op;
mod peer;
mod printed;
mod random;
mod reach;
mod replay;
mod rows;
mod schedule;
mod simulator;
mod slab;
mod state;
mod stream;

pub use clock::{Span, SpanKind, Wait};
pub use config::{Model, Order, SimConfig};
pub use fault::Call;
pub use simulator::{Counters, Simulator};

use crate::copies::host_address;
use crate::core::Core;
use crate::host_function::Ended;
use crate::occupancy::Limits;
use crate::op::{Op, Pattern};
use crate::printed::Printer;
use crate::state::State;
use crate::stream::Stream;
use cuda_rt_checker::{Checked, Simulates, Watch};
use cuda_rt_driver::call_lock::CallLock;
use cuda_rt_driver::{
    Backend, Communicator, CopyExtent, DeviceAddress, DriverError, DriverResult, ErrorCode, ForeignUse,
    HostFunction, PeerAccess, Pitch, Properties, RawEvent, RawGraph, RawNode, RawPeer, RawStream,
};
use cuda_rt_driver::{Copies, Driver, Events, Graphs, Kernels, Peers, Streams};
use cuda_rt_driver::{
    FunctionLaunch, Kernel, KernelAttributes, LaunchShape, RawFunction, RawModule, SuggestedBlock,
};
use cuda_rt_driver::{Hint, Race, Simulated, Tools, Trace};

/// A simulated device, with a [checker](cuda_rt_checker) that follows it.
pub type SimDriver = Checked<SimDevice>;

/// The engine of a simulated device: streams, memory, kernels, time. Programs reach it only through
/// [`SimDriver`].
#[derive(Debug)]
pub struct SimDevice {
    properties: Properties,
    /// The device's number among the devices of its host.
    device: usize,
    /// The name by which other devices refer to this one.
    peer: RawPeer,
    simulator: Simulator,
}

impl Simulates for SimDevice {
    type Config = SimConfig;
    type Handle = Simulator;

    /// Makes a device. The first device of the process installs a panic hook: it notes where a
    /// simulated kernel panicked, and then calls the previous hook.
    fn open(config: SimConfig) -> (Arc<Self>, Arc<Watch>) {
        launch::note_panics();
        let config = Arc::new(config);
        let core = Arc::new_cyclic(|core| Core {
            state: CallLock::new(State::new(Arc::clone(&config), Weak::clone(core))),
            watch: Watch::new(config.check, Some(config.seed)),
            ended: Ended::default(),
            printer: Printer::default(),
            config,
        });
        Self::of(core)
    }

    fn another(&self) -> (Arc<Self>, Arc<Watch>) {
        Self::of(Arc::clone(&self.simulator.0))
    }

    fn config(&self) -> &SimConfig {
        self.simulator.config()
    }

    fn handle(&self) -> &Simulator {
        &self.simulator
    }
}

impl SimDevice {
    /// Adds one more device to a host.
    fn of(core: Arc<Core>) -> (Arc<Self>, Arc<Watch>) {
        let added = core.look(|state| Some(state.add_device()));
        // If a panic has lost the host's devices, each later call fails.
        let (device, peer) = added.unwrap_or_else(|| (0, peer::new_peer()));
        let watch = Arc::clone(&core.watch);
        (Arc::new(Self::new(core, device, peer)), watch)
    }

    fn new(core: Arc<Core>, device: usize, peer: RawPeer) -> Self {
        let config = &core.config;
        let limits = Limits::of(config.compute_capability).expect("`SimConfig` refuses the unknown ones");
        let properties = Properties {
            ordinal: device,
            compute_capability: config.compute_capability,
            multiprocessors: 132,
            max_threads_per_multiprocessor: limits.threads,
            max_shared_bytes_per_block_optin: limits.shared_bytes,
            // One for each direction.
            copy_engines: 2,
            total_memory_bytes: config.memory_bytes,
            priority_range: (0, -5),
            concurrent_managed_access: config.managed_memory,
            ..Properties::named(config.name.clone(), Backend::Simulated)
        };
        Self {
            properties,
            device,
            peer,
            simulator: Simulator(core, device),
        }
    }

    /// Makes a call: counts it, and fails it if a fault is due.
    fn enter<R>(&self, call: Call, body: impl FnOnce(&mut State) -> DriverResult<R>) -> DriverResult<R> {
        self.simulator.0.enter(call, body)
    }

    /// Makes a call for which CUDA gets none: it is not counted, and no fault is due. Errors name
    /// `call`.
    fn enter_uncounted<R>(
        &self,
        call: Call,
        body: impl FnOnce(&mut State) -> DriverResult<R>,
    ) -> DriverResult<R> {
        self.simulator.0.enter_by(call, State::enter_uncounted, body)
    }

    /// Makes a call that ends the capture of `stream`, even if the call fails.
    fn finish_capture<R>(
        &self,
        call: Call,
        stream: RawStream,
        body: impl FnOnce(&mut State) -> DriverResult<R>,
    ) -> DriverResult<R> {
        let ended = self.enter(call, body);
        if ended.is_err() {
            // A call that fails before it begins leaves the capture open.
            let state = &self.simulator.0.state;
            let _ = state.enter(|state| state.abandon_capture(stream));
        }
        ended
    }

    /// Checks a launch as CUDA does.
    fn is_valid(&self, kernel: &Kernel, shape: &LaunchShape, parameters: &[*const c_void]) -> bool {
        self.is_valid_shape(shape) && parameters.len() == kernel.parameters.len()
    }

    fn is_valid_shape(&self, shape: &LaunchShape) -> bool {
        let limits = &self.properties;
        let threads = shape
            .block
            .iter()
            .try_fold(1u32, |product, n| product.checked_mul(*n));
        shape
            .grid
            .iter()
            .zip(limits.max_grid)
            .all(|(n, most)| (1..=most).contains(n))
            && threads.is_some_and(|threads| (1..=limits.max_threads_per_block).contains(&threads))
    }
}

impl Streams for SimDevice {
    fn create_stream(&self, _priority: i32) -> DriverResult<RawStream> {
        let stream = Stream {
            device: self.device,
            ..Stream::default()
        };
        self.enter(Call::CreateStream, |state| {
            Ok(RawStream(state.streams.insert(stream)))
        })
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> DriverResult<()> {
        self.enter(Call::DestroyStream, |state| state.destroy_stream(stream))
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> DriverResult<()> {
        let core = &self.simulator.0;
        core.wait(Call::SynchronizeStream, |state| {
            state.stream_end(stream).map(Some)
        })
    }

    unsafe fn query_stream(&self, stream: RawStream) -> DriverResult<bool> {
        self.enter(Call::QueryStream, |state| state.query_stream(stream))
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> DriverResult<()> {
        self.enter(Call::WaitEvent, |state| state.wait_event(stream, event))
    }

    cuda_rt_driver::stream_calls! { |this: &SimDevice|
        launch_host_function(stream, function, _uses) => {
            this.enter(Call::LaunchHostFunction, |state| {
                state.submit(Call::LaunchHostFunction, stream, Op::HostFunction(function))
            })
        };

        lose(why) => {
            let core = &this.simulator.0;
            let lost = core.state.enter(|state| {
                let detail = format!("{} ({})", why.detail(), state.origin());
                let why = DriverError::with_detail(why.call(), why.code(), detail);
                state.lost.get_or_insert(why);
            });
            lost.map_err(|error| core.refused(Call::LaunchHostFunction, error))
        };
    }

    cuda_rt_driver::stream_calls! { |_this: &SimDevice|
        foreign(_name, _stream, _uses, body) => {
            // There is no context to make current.
            body();
            Ok(())
        };
    }
}

impl Events for SimDevice {
    fn create_event(&self, timing: bool) -> DriverResult<RawEvent> {
        self.enter(Call::CreateEvent, |state| Ok(state.create_event(timing)))
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> DriverResult<()> {
        self.enter(Call::DestroyEvent, |state| state.destroy_event(event))
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> DriverResult<()> {
        self.enter(Call::RecordEvent, |state| state.record_event(event, stream))
    }

    unsafe fn query_event(&self, event: RawEvent) -> DriverResult<bool> {
        self.enter(Call::QueryEvent, |state| state.query_event(event))
    }

    unsafe fn synchronize_event(&self, event: RawEvent) -> DriverResult<()> {
        let core = &self.simulator.0;
        core.wait(Call::SynchronizeEvent, |state| {
            state.place(Call::SynchronizeEvent, event)
        })
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
        self.enter(Call::ElapsedMs, |state| state.elapsed_ms(start, end))
    }
}

impl Copies for SimDevice {
    cuda_rt_driver::copy_calls! { |this: &SimDevice|
        copy_to_device(destination, source, bytes, stream) => {
            let call = (Call::CopyToDevice, SpanKind::CopyToDevice);
            this.copy_of(call, destination, host_address(source), bytes, stream)
        };

        copy_to_host(destination, source, bytes, stream) => {
            let call = (Call::CopyToHost, SpanKind::CopyToHost);
            this.copy_of(call, host_address(destination), source, bytes, stream)
        };

        copy(destination, source, bytes, stream) => {
            this.copy_of((Call::Copy, SpanKind::Copy), destination, source, bytes, stream)
        };

        copy_rows_to_device(destination, source, extent, stream) => {
            let source = (host_address(source.0), source.1);
            this.copy_rows_of(SpanKind::CopyToDevice, destination, source, extent, stream)
        };

        copy_rows_to_host(destination, source, extent, stream) => {
            let destination = (host_address(destination.0), destination.1);
            this.copy_rows_of(SpanKind::CopyToHost, destination, source, extent, stream)
        };

        copy_rows(destination, source, extent, stream) => {
            this.copy_rows_of(SpanKind::Copy, destination, source, extent, stream)
        };

        fill(destination, pattern, count, stream) => {
            this.enter(Call::Fill, |state| {
                let Some(bytes) = pattern.len().checked_mul(count).filter(|_| !pattern.is_empty()) else {
                    return Err(state.error(Call::Fill, ErrorCode::INVALID_VALUE));
                };
                let op = Op::Fill {
                    destination: destination.0,
                    pattern: Pattern::new(pattern),
                    bytes,
                };
                state.transfer(Call::Fill, stream, &[(this.device, destination)], bytes, op)
            })
        };
    }
}

impl Peers for SimDevice {
    fn peer(&self) -> RawPeer {
        self.peer
    }

    fn peer_access(&self, peer: RawPeer) -> DriverResult<PeerAccess> {
        self.access_to(peer)
    }

    fn communicator(&self, ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>> {
        self.ranks(ranks).map(|ranks| Box::new(ranks) as _)
    }

    cuda_rt_driver::peer_calls! { |this: &SimDevice|
        copy_peer(destination, source, bytes, stream) => {
            this.copy_between(destination, source, bytes, stream)
        };
    }
}

impl Kernels for SimDevice {
    fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()> {
        self.enter(Call::Prepare, |_| {
            self.properties.check_shared_bytes(kernel, kernel.shared_bytes())
        })
    }

    fn kernel_attributes(&self, _kernel: &'static Kernel) -> DriverResult<KernelAttributes> {
        self.enter(Call::KernelAttributes, |_| {
            Ok(occupancy::attributes(&self.properties))
        })
    }

    fn max_active_blocks(
        &self,
        _kernel: &'static Kernel,
        threads: u32,
        shared_bytes: u32,
    ) -> DriverResult<u32> {
        self.enter(Call::MaxActiveBlocks, |state| {
            if threads == 0 {
                return Err(state.error(Call::MaxActiveBlocks, ErrorCode::INVALID_VALUE));
            }
            Ok(occupancy::active_blocks(&self.properties, threads, shared_bytes))
        })
    }

    fn suggest_block(&self, _kernel: &'static Kernel, shared_bytes: u32) -> DriverResult<SuggestedBlock> {
        self.enter(Call::SuggestBlock, |_| {
            Ok(occupancy::suggestion(&self.properties, shared_bytes))
        })
    }

    cuda_rt_driver::kernel_calls! { |this: &SimDevice|
        launch(kernel, shape, parameters, stream) => {
            this.enter(Call::Launch, |state| {
                state.stream(Call::Launch, stream)?;
                this.properties.check_shared_bytes(kernel, shape.shared_bytes)?;
                if !this.is_valid(kernel, shape, parameters) {
                    return Err(state.error(Call::Launch, ErrorCode::INVALID_VALUE));
                }
                // SAFETY: by the contract of `launch` there is one pointer for each parameter, to a
                // live value of its size.
                let launch = unsafe { launch::Launch::new(kernel, shape, parameters) };
                state.submit(Call::Launch, stream, Op::Launch(Box::new(launch)))
            })
        };

        launch_padded(kernel, shape, parameters, stream) => {
            // SAFETY: the same contract; `launch` reads no byte of the values.
            unsafe { this.launch(kernel, shape, parameters, stream) }
        };

        load_module(image) => {
            this.enter(Call::LoadModule, |state| state.load_module(image))
        };

        unload_module(module) => {
            this.enter(Call::UnloadModule, |state| state.unload_module(module))
        };

        module_function(module, name) => {
            this.enter(Call::ModuleFunction, |state| state.module_function(module, name))
        };

        launch_function(function, launch, stream) => {
            this.enter(Call::Launch, |state| {
                state.stream(Call::Launch, stream)?;
                let (properties, shape) = (&this.properties, &launch.shape);
                properties.check_shared_bytes_of(launch.name, shape.shared_bytes, "launch it with less")?;
                if !this.is_valid_shape(shape) {
                    return Err(state.error(Call::Launch, ErrorCode::INVALID_VALUE));
                }
                let function = state.function_launch(function, launch)?;
                state.submit(Call::Launch, stream, Op::Function(Box::new(function)))
            })
        };
    }
}

impl Graphs for SimDevice {
    unsafe fn begin_capture(&self, stream: RawStream) -> DriverResult<()> {
        self.enter(Call::BeginCapture, |state| state.begin_capture(stream))
    }

    unsafe fn end_capture(&self, stream: RawStream) -> DriverResult<RawGraph> {
        self.finish_capture(Call::EndCapture, stream, |state| state.end_capture(stream))
    }

    unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode> {
        self.enter(Call::CapturedNode, |state| state.captured_node(stream))
    }

    unsafe fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        self.finish_capture(Call::UpdateGraph, stream, |state| {
            state.update_graph(graph, stream)
        })
    }

    unsafe fn launch_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        self.enter(Call::LaunchGraph, |state| state.launch_graph(graph, stream))
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) -> DriverResult<()> {
        self.enter(Call::DestroyGraph, |state| state.destroy_graph(graph))
    }

    cuda_rt_driver::graph_calls! { |this: &SimDevice|
        set_launch(graph, node, kernel, shape, parameters) => {
            this.enter(Call::SetLaunch, |state| {
                this.properties.check_shared_bytes(kernel, shape.shared_bytes)?;
                if !this.is_valid(kernel, shape, parameters) {
                    return Err(state.error(Call::SetLaunch, ErrorCode::INVALID_VALUE));
                }
                // SAFETY: by the contract of `set_launch` there is one pointer for each parameter,
                // to a live value of its size.
                let launch = unsafe { launch::Launch::new(kernel, shape, parameters) };
                state.set_launch(graph, node, launch)
            })
        };
    }
}

// SAFETY: operations run in the order of their stream and after the work that they wait for:
// `State::step` takes from the front of a queue, and `can_run` holds a wait back. Blocks in use
// never overlap (SIM-MEMORY-1). A wait ends only when `is_done` holds.
unsafe impl Driver for SimDevice {
    fn properties(&self) -> &Properties {
        &self.properties
    }
}

// SAFETY: `begin_trace` returns no trace.
unsafe impl Tools for SimDevice {
    fn simulator(&self) -> Option<&dyn Simulated> {
        Some(&self.simulator)
    }

    /// The checker is one layer above, in [`SimDriver`].
    fn is_checked(&self) -> bool {
        false
    }

    fn races(&self) -> Vec<Race> {
        Vec::new()
    }

    fn hint(&self, note: Hint<'_>) {
        if let Hint::LeftOut { event, call } = note {
            self.simulator.0.tell(|state| state.left_out(event, call));
        }
    }

    /// Spans are recorded by [`Simulator::record_spans`] instead.
    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_rt_driver::Memory as _;

    #[test]
    fn a_panic_inside_loses_all_devices_of_the_host() {
        let first = SimDriver::new(SimConfig::new().seed(5));
        let (second, other) = (first.another(), SimDriver::new(SimConfig::new()));
        let stream = first.create_stream(0).unwrap();
        let core = &first.inner().simulator.0;
        let made = core.enter(Call::Fill, |state| -> DriverResult<()> {
            state.streams.get_mut(stream.0).unwrap().queue.clear();
            panic!("in the middle of a call")
        });
        for error in [
            made.unwrap_err(),
            first.create_stream(0).unwrap_err(),
            second.memory_info().unwrap_err(),
            // SAFETY: the handle is live.
            unsafe { first.synchronize_stream(stream) }.unwrap_err(),
        ] {
            assert!(error.is_sticky(), "{error}");
            assert!(error.detail().contains("in the middle of a call"), "{error}");
            assert!(error.detail().contains("seed 5"), "{error}");
        }
        assert_eq!(first.simulator().unwrap().counters(), Counters::default());
        assert!(other.create_stream(0).is_ok());
    }

    #[test]
    fn a_panic_while_it_is_looked_at_loses_the_device_too() {
        let driver = SimDriver::new(SimConfig::new());
        let core = &driver.inner().simulator.0;
        assert_eq!(core.look(|_| -> u64 { panic!("while it is looked at") }), 0);
        assert!(driver.memory_info().unwrap_err().is_sticky());
    }
}
