//! [`Simulator`]: the handle by which tests and tools look into a simulated device.

use std::fmt;
use std::sync::Arc;

use super::clock::{Span, SpanKind, Wait};
use super::config::SimConfig;
use super::fault::Call;
use super::memory::Memory;
use super::op::{Op, Position};
use super::{Core, SimDevice, SimDriver, State};
use cuda_rt_checker::Checked;
use cuda_rt_driver::Engine;
use cuda_rt_driver::Race;
use cuda_rt_driver::Simulated;
use cuda_rt_driver::{ErrorCode, RawStream};

/// Handle to a simulated device: its seed, faults, counters and modelled time.
///
/// [Devices of one host](Checked::another) share one seed, one order and one clock, and count calls
/// and faults together. All values here are of all devices of the host, except engines, spans and
/// waits.
///
/// The methods are not driver calls: they are not counted and cannot be made to fail. They run no
/// work, except [`run_pending`](Self::run_pending) and [`run_stream`](Self::run_stream). These two
/// wait for host functions, unless a host function calls them. Inside a simulated kernel they
/// panic. If a panic has lost the host's devices, they find nothing.
///
/// ```
/// use cuda_rt_driver::{Copies, Engine, ErrorCode, Memory, Streams};
/// use cuda_rt_simulator::{Call, Order, SimConfig, SimDriver, Simulator};
///
/// let driver = SimDriver::new(SimConfig::new().seed(7).order(Order::Lazy));
/// let simulator = Simulator::of(&*driver).expect("it is simulated");
/// assert_eq!((simulator.seed(), simulator.config().order), (7, Order::Lazy));
///
/// simulator.record_spans(true);
/// let stream = driver.create_stream(0)?;
/// // SAFETY: the stream is live.
/// let data = unsafe { driver.alloc(4096, stream) }?;
/// // SAFETY: the memory is live, and used on this stream only.
/// unsafe { driver.fill(data, &[1], 4096, stream) }?;
/// assert!(simulator.counters().operations_pending > 0); // nobody has waited yet
/// simulator.run_stream(stream); // this stream's work, and all that it waits for
/// simulator.run_pending(); // all work
/// assert_eq!(simulator.counters().operations_pending, 0);
/// assert_eq!(simulator.counters().calls(Call::Alloc), 1);
/// println!("calls of {}: {}", Call::Alloc.name(), simulator.counters().calls(Call::Alloc));
///
/// // Times are modelled: of the device's engines, and of the calling thread.
/// let spans = simulator.take_spans();
/// assert_eq!(spans.iter().map(|span| span.bytes).sum::<u64>(), 4096);
/// assert!(simulator.take_waits().is_empty());
/// assert!(simulator.busy_ns(Engine::Compute) > 0);
/// let before = simulator.host_now_ns();
/// simulator.spend_host_ns(500); // the program computes meanwhile
/// assert_eq!(simulator.host_now_ns() - before, 500);
///
/// // The second allocation from now on would fail.
/// simulator.fail_nth(Call::Alloc, 2, ErrorCode::OUT_OF_MEMORY);
/// simulator.clear_faults();
/// assert_eq!(simulator.pending_faults(), 0);
///
/// // A second device of the same host, with the same order and the same checker.
/// let peer = simulator.another();
/// assert!(simulator.races().is_empty());
/// println!("{}: the checker keeps {:?}", peer.config().name, simulator.checker_footprint());
/// # Ok::<(), cuda_rt_driver::DriverError>(())
/// ```
#[derive(Clone)]
pub struct Simulator(pub(super) Arc<Core>, pub(super) usize);

impl fmt::Debug for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulator")
            .field("seed", &self.seed())
            .finish_non_exhaustive()
    }
}

impl Simulator {
    /// The handle of the simulated device that has these tools, if the device is simulated.
    pub fn of(tools: &dyn cuda_rt_driver::Tools) -> Option<&Self> {
        let simulated: &dyn std::any::Any = tools.simulator()?;
        simulated.downcast_ref()
    }

    /// The seed. The same seed and the same calls from one thread give the same order of all work.
    pub fn seed(&self) -> u64 {
        self.0.config.seed
    }

    /// The device's configuration.
    pub fn config(&self) -> &SimConfig {
        &self.0.config
    }

    /// Makes one more device of the same host; see [`Checked::another`].
    pub fn another(&self) -> Arc<SimDriver> {
        let (device, watch) = SimDevice::of(Arc::clone(&self.0));
        Checked::watching(device, watch)
    }

    /// Makes the next `call` fail with `code`. A sticky code loses the device: every later call
    /// fails too, and pending work never runs.
    ///
    /// A fault of a call that the program never makes does not happen.
    /// [`pending_faults`](Self::pending_faults) tells a test of an error path whether its fault
    /// did.
    ///
    /// ```
    /// use cuda_rt_driver::{ErrorCode, Memory};
    /// use cuda_rt_simulator::{Call, SimConfig, SimDriver, Simulator};
    ///
    /// let driver = SimDriver::new(SimConfig::new());
    /// // In the typed API: `gpu.simulator()`.
    /// let simulator = Simulator::of(&*driver).unwrap();
    /// simulator.fail_next(Call::MemoryInfo, ErrorCode::NOT_PERMITTED);
    /// assert_eq!(simulator.pending_faults(), 1);
    /// let error = driver.memory_info().unwrap_err();
    /// assert_eq!(error.code(), ErrorCode::NOT_PERMITTED);
    /// assert_eq!(simulator.pending_faults(), 0, "the fault happened");
    /// driver.memory_info().unwrap(); // only one call failed
    /// ```
    pub fn fail_next(&self, call: Call, code: ErrorCode) {
        self.fail_nth(call, 1, code);
    }

    /// Makes the `nth` `call` from now on fail with `code`; the next call is number 1. Calls that
    /// the runtime makes for its own bookkeeping count too. Two faults of one call that fall on the
    /// same number are one, with the code of the later request.
    ///
    /// # Panics
    /// If `nth` is 0.
    pub fn fail_nth(&self, call: Call, nth: u64, code: ErrorCode) {
        assert!(nth > 0, "the first call is number 1");
        self.0.look(|state| state.faults.add(call, nth, code));
    }

    /// The number of requested faults that did not happen yet, nor were cancelled. A test that asks
    /// at its end that it is 0 cannot pass because its fault never happened.
    pub fn pending_faults(&self) -> usize {
        self.0.look(|state| state.faults.len())
    }

    /// Cancels the faults that did not happen yet.
    pub fn clear_faults(&self) {
        self.0.look(|state| state.faults.clear());
    }

    /// Runs all pending work, in an order chosen by the seed, as if the host did other work for a
    /// long time. The host learns nothing about it, so this orders nothing.
    pub fn run_pending(&self) {
        loop {
            while self.0.look(State::step_any) {}
            if !self.0.wait_for_host_function() {
                return;
            }
        }
    }

    /// Runs the present work of a stream and the work that it waits for; in a lazy order, nothing
    /// more. The host learns nothing about it either.
    pub fn run_stream(&self, stream: RawStream) {
        let issued = |state: &mut State| state.streams.get(stream.0).map(|held| held.issued());
        let Some(at) = self.0.look(issued) else { return };
        let position = Position { stream: stream.0, at };
        while !self.0.look(|state| state.run_until(position)) && self.0.wait_for_host_function() {}
    }

    /// The races found so far: each pair of calls once, at most 256.
    pub fn races(&self) -> Vec<Race> {
        self.0.watch.races()
    }

    /// Number of byte ranges and number of actors that the checker remembers.
    pub fn checker_footprint(&self) -> (usize, usize) {
        self.0.watch.footprint()
    }

    /// The present contents of the device, and what happened so far.
    pub fn counters(&self) -> Counters {
        self.0.look(|state| state.counters())
    }

    /// Starts or stops recording spans; off at first. Spans stay in memory until they are taken.
    pub fn record_spans(&self, on: bool) {
        self.0.look(|state| {
            let clock = state.clock.device(self.1);
            match (on, &clock.spans) {
                (true, None) => clock.spans = Some(Vec::new()),
                (false, Some(_)) => {
                    clock.spans = None;
                    clock.waits.clear();
                }
                _ => {}
            }
        });
    }

    /// Takes the spans of the operations that ran, in the order in which they were enqueued. Spans
    /// of pending operations stay.
    pub fn take_spans(&self) -> Vec<Span> {
        self.0.look(|state| {
            let Some(spans) = state.clock.device(self.1).spans.take() else {
                return Vec::new();
            };
            let executed =
                |(at, span): &(u64, Span)| state.streams.get(span.stream.0).is_none_or(|s| s.executed > *at);
            let (ran, pending): (Vec<_>, Vec<_>) = spans.into_iter().partition(executed);
            state.clock.device(self.1).spans = Some(pending);
            ran.into_iter().map(|(_, span)| span).collect()
        })
    }

    /// Takes the waits that held a stream back while spans were recorded, in the order in which
    /// they were enqueued.
    pub fn take_waits(&self) -> Vec<Wait> {
        self.0
            .look(|state| std::mem::take(&mut state.clock.device(self.1).waits))
    }

    /// How long all enqueued work occupies an engine of this device, in modelled ns.
    pub fn busy_ns(&self, engine: Engine) -> u64 {
        self.0.look(|state| state.clock.busy_ns(self.1, engine))
    }

    /// The calling thread's modelled clock, in ns since the device was made. A call advances the
    /// clock by the call's cost; a wait advances it to the modelled time of the awaited work.
    pub fn host_now_ns(&self) -> u64 {
        self.0.look(|state| state.clock.now_ns())
    }

    /// Advances the calling thread's modelled clock by `ns`, for work that the host does itself.
    pub fn spend_host_ns(&self, ns: u64) {
        self.0.look(|state| state.clock.spend(ns));
    }
}

impl Simulated for Simulator {
    fn seed(&self) -> u64 {
        self.0.config.seed
    }
}

/// The contents of a simulated device, and counts of its work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Streams that were created and not destroyed.
    pub streams_live: usize,
    /// Events that were created and not destroyed.
    pub events_live: usize,
    /// Events ever created.
    pub events_created: u64,
    /// Graphs that were captured and not destroyed.
    pub graphs_live: usize,
    /// Blocks that were allocated and not freed, including blocks of graphs.
    pub allocations_live: usize,
    /// Those among these blocks that the program keeps free for their next owners
    /// ([`note_free`](cuda_rt_driver::Memory::note_free)).
    pub blocks_free: usize,
    /// Bytes of all these blocks, each rounded up to a multiple of 256.
    pub bytes_live: u64,
    /// Blocks of host memory that are registered.
    pub registrations_live: usize,
    /// Allocations of managed memory that were not freed.
    pub managed_live: usize,
    /// Operations that were enqueued and did not run yet.
    pub operations_pending: usize,
    /// Operations that ran: copies, fills, kernels, host functions, ranks' parts in collectives.
    pub operations_run: u64,
    /// Bytes copied from host to device.
    pub bytes_to_device: u64,
    /// Bytes copied from device to host.
    pub bytes_to_host: u64,
    /// Bytes copied within the device.
    pub bytes_within_device: u64,
    /// Bytes copied between two devices.
    pub bytes_between_devices: u64,
    frees_noted: u64,
    calls: Calls,
}

/// The number of times that each call was made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Calls([u64; Call::ALL.len()]);

impl Default for Calls {
    fn default() -> Self {
        Self([0; Call::ALL.len()])
    }
}

impl Counters {
    /// The number of times that `call` was made, with or without success.
    pub fn calls(&self, call: Call) -> u64 {
        self.calls.0[call as usize]
    }

    /// The number of times that an owner of device memory ended: the block was freed, or kept free
    /// for its next owner ([`note_free`](cuda_rt_driver::Memory::note_free)).
    pub fn frees(&self) -> u64 {
        self.calls(Call::Free) + self.frees_noted
    }

    /// Counts a block that is kept free for its next owner.
    pub(super) fn free_noted(&mut self) {
        self.frees_noted += 1;
    }

    pub(super) fn call(&mut self, call: Call) {
        self.calls.0[call as usize] += 1;
    }

    /// Counts an operation that ran.
    pub(super) fn count(&mut self, op: &Op) {
        match op {
            Op::Wait(_) | Op::Spoil { .. } | Op::Free { .. } | Op::Graph { .. } | Op::Send { .. } => return,
            Op::Fill { .. } | Op::Launch(_) | Op::Function(_) | Op::Receive(_) | Op::HostFunction(_) => {}
            Op::Copy { .. } | Op::CopyRows(_) => {
                let (kind, bytes) = match op {
                    Op::Copy { kind, bytes, .. } => (*kind, *bytes),
                    Op::CopyRows(rows) => (rows.kind(), rows.bytes()),
                    _ => unreachable!("one of two copies"),
                };
                let total = match kind {
                    SpanKind::CopyToDevice => &mut self.bytes_to_device,
                    SpanKind::CopyToHost => &mut self.bytes_to_host,
                    SpanKind::CopyPeer => &mut self.bytes_between_devices,
                    _ => &mut self.bytes_within_device,
                };
                *total += bytes as u64;
            }
        }
        self.operations_run += 1;
    }
}

impl State {
    fn counters(&self) -> Counters {
        Counters {
            streams_live: self.streams.iter().filter(|s| !s.destroyed).count(),
            events_live: self.events.len(),
            graphs_live: self.graphs.iter().filter(|g| !g.destroyed).count(),
            allocations_live: self.memories.iter().map(Memory::blocks).sum(),
            blocks_free: self.memories.iter().map(Memory::free_blocks).sum(),
            bytes_live: self.memories.iter().map(Memory::used_bytes).sum(),
            registrations_live: self.host.registered(),
            managed_live: self.host.managed.allocations(),
            operations_pending: self.schedule.pending,
            ..self.counters.clone()
        }
    }
}
