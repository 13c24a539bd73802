//! A driver that tells the [checker](crate) what passes through it.

use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::OnceLock;

use cuda_rt_driver::AccessKind::{Read, Write};
use cuda_rt_driver::{
    Communicator, DeviceAddress, Driver, DriverResult, ForeignUse, Hint, HostMemory, MemoryInfo,
    MemoryPoolStats, PeerAccess, Properties, RawEvent, RawGraph, RawNode, RawPeer, RawStream, Simulated,
    Trace,
};
use cuda_rt_driver::{Kernel, LaunchShape};
use cuda_rt_driver::{Operation, Race, Site};

mod called_at;
mod communicator;
mod follow;
mod simulates;
mod watch;

use called_at::CALLED_AT;
pub use called_at::CalledAt;
pub use called_at::at_statement;
use follow::each_buffer;
pub use simulates::Simulates;
pub use watch::Watch;

/// What becomes of a race that the checker finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Nothing is checked.
    Off,
    /// It is kept, to be asked for ([`Driver::races`]).
    Record,
    /// It is kept and printed to standard error, and every later call that enqueues or waits fails.
    /// The call that found it does not: it has been made.
    #[default]
    Deny,
}

/// A driver whose every operation a checker follows: vector clocks over streams and the host, byte
/// ranges, one run.
///
/// The simulated device always goes through one (`SimConfig::check`). Over the CUDA driver it is
/// used where the environment variable `CUDA_RT_CHECK` is 1, or by hand, for programs of raw calls:
///
/// It sees host memory where that passes between host and streams, which the typed API tells it
/// ([`Hint`]).
pub struct Checked<D: Driver + ?Sized> {
    inner: Arc<D>,
    watch: Arc<Watch>,
}

impl<D: Driver + ?Sized> fmt::Debug for Checked<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked")
            .field("inner", &self.inner)
            .field("check", &self.watch.check)
            .finish_non_exhaustive()
    }
}

/// The place of a call that came in at `caller`.
fn site(caller: &'static Location<'static>) -> Site {
    match CALLED_AT.get() {
        Some(site) => site,
        // Through `dyn Driver` the caller is the method itself.
        None if caller.file() == file!() => Site::Unknown,
        None => Site::Code(caller),
    }
}

fn device(address: DeviceAddress, bytes: usize) -> Range<u64> {
    address.0..address.0.saturating_add(bytes as u64)
}

fn host(address: NonNull<c_void>, bytes: usize) -> Range<u64> {
    device(DeviceAddress(address.addr().get() as u64), bytes)
}

impl<D: Driver + ?Sized> Checked<D> {
    /// Follows the calls to `inner` that are made through this driver, and only those.
    pub fn over(inner: Arc<D>, check: Check) -> Arc<Self> {
        let seed = inner.simulator().map(Simulated::seed);
        Self::watching(inner, Watch::new(check, seed))
    }

    /// As [`over`](Self::over), with one checker for all that is followed so: handoffs between
    /// devices are edges between streams.
    pub fn over_with_others(inner: Arc<D>, check: Check) -> Arc<Self> {
        static WATCH: OnceLock<Arc<Watch>> = OnceLock::new();
        Self::watching(inner, Arc::clone(WATCH.get_or_init(|| Watch::new(check, None))))
    }

    /// Follows the calls to `inner`, and tells the checker of `watch`, with that of other devices
    /// of one host.
    pub fn watching(inner: Arc<D>, watch: Arc<Watch>) -> Arc<Self> {
        Arc::new(Self { inner, watch })
    }

    /// The driver whose calls are followed. Calls made on it are not.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

// SAFETY: as `inner`, to which every call is passed on as it is.
unsafe impl<D: Driver + ?Sized> Driver for Checked<D> {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn simulator(&self) -> Option<&dyn Simulated> {
        self.inner.simulator()
    }

    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        self.inner.begin_trace()
    }

    fn is_checked(&self) -> bool {
        !self.watch.is_off() || self.inner.is_checked()
    }

    fn races(&self) -> Vec<Race> {
        let mut races = self.watch.races();
        races.extend(self.inner.races());
        races
    }

    fn hint(&self, note: Hint<'_>) {
        self.inner.hint(note);
        if self.watch.is_off() {
            return;
        }
        // What it finds is denied to the next call: a note cannot fail.
        let _ = self.watch.enter(|monitor| {
            self.watch.tell(monitor, |monitor| match note {
                Hint::HostAccess {
                    address,
                    bytes,
                    passed,
                } => {
                    let statement = CALLED_AT.get().filter(|at| matches!(at, Site::Statement(_)));
                    let operation = Operation {
                        name: passed.during,
                        site: statement.unwrap_or(Site::Code(passed.at)),
                    };
                    monitor.host_access(host(address, bytes), Write, operation);
                }
                Hint::ForeignMemory {
                    address,
                    bytes,
                    ends: false,
                    ..
                } => monitor.register(device(address, bytes)),
                Hint::ForeignMemory {
                    address,
                    bytes,
                    passed,
                    ends: true,
                } => {
                    let operation = Operation {
                        name: "release of foreign memory",
                        site: Site::Code(passed.at),
                    };
                    monitor.unregister(device(address, bytes), operation);
                }
                Hint::StreamName { stream, name } => monitor.name_stream(stream.0, name),
            });
            Ok(())
        });
    }

    fn pool_stats(&self) -> DriverResult<MemoryPoolStats> {
        self.inner.pool_stats()
    }

    fn reset_pool_peaks(&self) -> DriverResult<()> {
        self.inner.reset_pool_peaks()
    }

    fn set_release_threshold(&self, bytes: u64) -> DriverResult<()> {
        self.inner.set_release_threshold(bytes)
    }

    fn trim_pool(&self, keep_bytes: u64) -> DriverResult<()> {
        self.inner.trim_pool(keep_bytes)
    }

    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        self.inner.memory_info()
    }

    fn create_stream(&self, priority: i32) -> DriverResult<RawStream> {
        self.follow(
            |inner| inner.create_stream(priority),
            |monitor, stream| monitor.create_stream(stream.0),
        )
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> DriverResult<()> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.destroy_stream(stream) },
            |monitor, ()| monitor.destroy_stream(stream.0),
        )
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> DriverResult<()> {
        self.synchronize(
            |monitor| monitor.stream_contents(stream.0),
            // SAFETY: the caller's.
            |inner| unsafe { inner.synchronize_stream(stream) },
        )
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> DriverResult<()> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.wait_event(stream, event) },
            |monitor, ()| monitor.wait_event(stream.0, event.0),
        )
    }

    fn create_event(&self, timing: bool) -> DriverResult<RawEvent> {
        self.inner.create_event(timing)
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> DriverResult<()> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.destroy_event(event) },
            |monitor, ()| monitor.destroy_event(event.0),
        )
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> DriverResult<()> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.record_event(event, stream) },
            |monitor, ()| monitor.record_event(event.0, stream.0),
        )
    }

    unsafe fn query_event(&self, event: RawEvent) -> DriverResult<bool> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.query_event(event) },
            |monitor, done| {
                if *done {
                    let contents = monitor.event_contents(event.0);
                    monitor.seen_done(&contents);
                }
            },
        )
    }

    unsafe fn synchronize_event(&self, event: RawEvent) -> DriverResult<()> {
        self.synchronize(
            |monitor| monitor.event_contents(event.0),
            // SAFETY: the caller's.
            |inner| unsafe { inner.synchronize_event(event) },
        )
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
        // SAFETY: the caller's.
        unsafe { self.inner.elapsed_ms(start, end) }
    }

    #[track_caller]
    unsafe fn alloc(&self, bytes: usize, stream: RawStream) -> DriverResult<DeviceAddress> {
        let caller = Location::caller();
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.alloc(bytes, stream) },
            |monitor, address| {
                let operation = Operation {
                    name: "alloc",
                    site: site(caller),
                };
                monitor.alloc(address.0, bytes as u64, stream.0, operation);
            },
        )
    }

    #[track_caller]
    unsafe fn free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
        let caller = Location::caller();
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.free(address, stream) },
            |monitor, ()| {
                let operation = Operation {
                    name: "free",
                    site: site(caller),
                };
                monitor.free(address.0, stream.0, operation);
            },
        )
    }

    unsafe fn register_host(&self, memory: &HostMemory) -> DriverResult<()> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.register_host(memory) },
            |monitor, ()| monitor.register(host(memory.address(), memory.len_bytes())),
        )
    }

    #[track_caller]
    unsafe fn unregister_host(&self, memory: &HostMemory) -> DriverResult<()> {
        let caller = Location::caller();
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.unregister_host(memory) },
            |monitor, ()| {
                let operation = Operation {
                    name: "unregister",
                    site: site(caller),
                };
                monitor.unregister(host(memory.address(), memory.len_bytes()), operation);
            },
        )
    }

    #[track_caller]
    unsafe fn copy_to_device(
        &self,
        destination: DeviceAddress,
        source: NonNull<c_void>,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let accesses = [(Read, host(source, bytes)), (Write, device(destination, bytes))];
        self.enqueue("copy to device", Location::caller(), stream, accesses, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy_to_device(destination, source, bytes, stream) }
        })
    }

    #[track_caller]
    unsafe fn copy_to_host(
        &self,
        destination: NonNull<c_void>,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let accesses = [(Read, device(source, bytes)), (Write, host(destination, bytes))];
        self.enqueue("copy to host", Location::caller(), stream, accesses, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy_to_host(destination, source, bytes, stream) }
        })
    }

    #[track_caller]
    unsafe fn copy(
        &self,
        destination: DeviceAddress,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let accesses = [(Read, device(source, bytes)), (Write, device(destination, bytes))];
        self.enqueue("copy", Location::caller(), stream, accesses, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy(destination, source, bytes, stream) }
        })
    }

    fn communicator(&self, ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>> {
        let (inner, watch) = (self.inner.communicator(ranks)?, Arc::clone(&self.watch));
        Ok(Box::new(communicator::Checked { inner, watch }))
    }

    fn peer(&self) -> RawPeer {
        self.inner.peer()
    }

    fn peer_access(&self, peer: RawPeer) -> DriverResult<PeerAccess> {
        self.inner.peer_access(peer)
    }

    #[track_caller]
    unsafe fn copy_peer(
        &self,
        destination: (RawPeer, DeviceAddress),
        source: (RawPeer, DeviceAddress),
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let accesses = [
            (Read, device(source.1, bytes)),
            (Write, device(destination.1, bytes)),
        ];
        self.enqueue("copy to peer", Location::caller(), stream, accesses, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy_peer(destination, source, bytes, stream) }
        })
    }

    #[track_caller]
    unsafe fn fill(
        &self,
        destination: DeviceAddress,
        pattern: &[u8],
        count: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let accesses = [(Write, device(destination, pattern.len().saturating_mul(count)))];
        self.enqueue("fill", Location::caller(), stream, accesses, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.fill(destination, pattern, count, stream) }
        })
    }

    fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()> {
        self.inner.prepare(kernel)
    }

    #[track_caller]
    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
    ) -> DriverResult<()> {
        let caller = Location::caller();
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.launch(kernel, shape, parameters, stream) },
            |monitor, ()| {
                let operation = Operation {
                    name: kernel.name,
                    site: site(caller),
                };
                let begun = monitor.begin(stream.0);
                let tell = |bytes, kind| monitor.access(begun, bytes, kind, operation);
                // SAFETY: the caller's: the driver took the parameters, one for each of the
                // kernel's.
                unsafe { each_buffer(kernel, parameters, tell) };
            },
        )
    }

    fn foreign(
        &self,
        name: &'static str,
        stream: RawStream,
        uses: &[ForeignUse],
        body: &mut dyn FnMut(),
    ) -> DriverResult<()> {
        let caller = Location::caller();
        if self.watch.is_off() {
            return self.inner.foreign(name, stream, uses, body);
        }
        self.watch.check_denied()?;
        // Not with the monitor locked: the body may call this driver.
        self.inner.foreign(name, stream, uses, body)?;
        // The call was made, so nothing here is its error.
        let _ = self.watch.enter(|monitor| {
            self.watch.tell(monitor, |monitor| {
                let operation = Operation {
                    name,
                    site: site(caller),
                };
                let begun = monitor.begin(stream.0);
                for used in uses {
                    let bytes = device(used.address, used.bytes);
                    monitor.access(begun, bytes, if used.writes { Write } else { Read }, operation);
                }
            });
            Ok(())
        });
        Ok(())
    }

    unsafe fn begin_capture(&self, stream: RawStream) -> DriverResult<()> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.begin_capture(stream) },
            |monitor, ()| monitor.begin_capture(stream.0),
        )
    }

    unsafe fn end_capture(&self, stream: RawStream) -> DriverResult<RawGraph> {
        if self.watch.is_off() {
            // SAFETY: the caller's.
            return unsafe { self.inner.end_capture(stream) };
        }
        let mut ended = None;
        let told = self.watch.enter(|monitor| {
            // SAFETY: the caller's.
            let graph = ended.insert(unsafe { self.inner.end_capture(stream) });
            // A capture that fails to end is over too.
            monitor.end_capture(stream.0, graph.as_ref().ok().map(|graph| graph.0));
            Ok(())
        });
        ended.unwrap_or_else(|| Err(told.expect_err("a call that was not made failed")))
    }

    unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.captured_node(stream) },
            |monitor, node| monitor.captured_node(stream.0, node.0),
        )
    }

    unsafe fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        if self.watch.is_off() {
            // SAFETY: the caller's.
            return unsafe { self.inner.update_graph(graph, stream) };
        }
        let mut updated = None;
        let told = self.watch.enter(|monitor| {
            // SAFETY: the caller's.
            let updated = updated.insert(unsafe { self.inner.update_graph(graph, stream) });
            // The capture is over in either case.
            monitor.update_graph(stream.0, updated.is_ok().then_some(graph.0));
            Ok(())
        });
        updated.unwrap_or_else(|| Err(told.expect_err("a call that was not made failed")))
    }

    /// What it changes is checked against the work of others at each replay, and not against the
    /// graph's other nodes.
    #[track_caller]
    unsafe fn set_launch(
        &self,
        graph: RawGraph,
        node: RawNode,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
    ) -> DriverResult<()> {
        let caller = Location::caller();
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.set_launch(graph, node, kernel, shape, parameters) },
            |monitor, ()| {
                let operation = Operation {
                    name: kernel.name,
                    site: site(caller),
                };
                let Some(by) = monitor.set_launch(graph.0, node.0) else {
                    return;
                };
                let tell = |bytes, kind| monitor.access_of_graph(graph.0, by, bytes, kind, operation);
                // SAFETY: the caller's: the driver took the parameters, one for each of the
                // kernel's.
                unsafe { each_buffer(kernel, parameters, tell) };
            },
        )
    }

    unsafe fn launch_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.launch_graph(graph, stream) },
            |monitor, ()| monitor.launch_graph(graph.0, stream.0),
        )
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) -> DriverResult<()> {
        self.follow(
            // SAFETY: the caller's.
            |inner| unsafe { inner.destroy_graph(graph) },
            |monitor, ()| monitor.destroy_graph(graph.0),
        )
    }
}
