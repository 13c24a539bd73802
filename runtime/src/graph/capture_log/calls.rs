//! The driver's calls, passed on and noted, or noted only.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::entries::{Copied, Entry, Launch};
use super::{CaptureLog, Mode, Run, State};
use cuda_rt_driver::OwnedArguments;
use cuda_rt_driver::Race;
use cuda_rt_driver::{
    Communicator, DeviceAddress, Driver, DriverError, DriverResult, ErrorCode, ForeignUse, Hint, HostMemory,
    MemoryInfo, MemoryPoolStats, PeerAccess, Properties, RawEvent, RawGraph, RawNode, RawPeer, RawStream,
    Simulated, Trace,
};
use cuda_rt_driver::{Kernel, LaunchShape};

/// An address that is no memory's, for a dry run that allocates what its capture did not: no launch
/// of it is ever made.
const NOWHERE: DeviceAddress = DeviceAddress(1 << 20);

fn number(address: NonNull<c_void>) -> u64 {
    address.addr().get() as u64
}

impl CaptureLog {
    /// Makes a call, or pretends to, and notes it.
    fn pass<T>(
        &self,
        call: impl FnOnce(&dyn Driver) -> DriverResult<T>,
        pretend: impl FnOnce(&State) -> T,
        note: impl FnOnce(&mut Run, &T) -> Entry,
    ) -> DriverResult<T> {
        let mut state = self.lock();
        let result = match state.mode {
            Mode::Off => {
                drop(state);
                return call(&*self.inner);
            }
            // Under the lock, so that the order of the notes is that of the calls.
            Mode::Capture => call(&*self.inner)?,
            Mode::DryRun => pretend(&state),
        };
        let entry = note(&mut state.run, &result);
        state.run.entries.push(entry);
        Ok(result)
    }

    /// # Safety
    /// As [`Driver::launch`]; values may have padding where `padded` says so.
    unsafe fn pass_launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
        padded: bool,
    ) -> DriverResult<()> {
        self.pass(
            |inner| {
                // SAFETY: the caller's.
                unsafe { inner.launch(kernel, shape, parameters, stream) }?;
                // Only tells: without it a launch takes a capture to change.
                // SAFETY: the caller's.
                Ok(unsafe { inner.captured_node(stream) }.ok())
            },
            |_| None,
            |run, node| {
                Entry::Launch(Launch {
                    stream: run.stream(stream),
                    shape: *shape,
                    // SAFETY: the caller's.
                    parameters: unsafe { OwnedArguments::new(kernel, parameters) },
                    padded,
                    node: *node,
                })
            },
        )
        .map(drop)
    }

    fn pass_copy(
        &self,
        (kind, to, from, bytes): (Copied, u64, u64, usize),
        stream: RawStream,
        call: impl FnOnce(&dyn Driver) -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.pass(
            call,
            |_| (),
            |run, ()| Entry::Copy {
                stream: run.stream(stream),
                kind,
                to,
                from,
                bytes,
            },
        )
    }
}

// SAFETY: as `inner`, to which calls are passed on as they are; in a dry run nothing is enqueued,
// and nothing is waited for: what is noted is made later by `apply`, or not at all.
unsafe impl Driver for CaptureLog {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn simulator(&self) -> Option<&dyn Simulated> {
        self.inner.simulator()
    }

    fn is_checked(&self) -> bool {
        self.inner.is_checked()
    }

    fn races(&self) -> Vec<Race> {
        self.inner.races()
    }

    fn hint(&self, note: Hint<'_>) {
        self.inner.hint(note);
    }

    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        self.inner.begin_trace()
    }

    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        self.inner.memory_info()
    }

    fn create_stream(&self, priority: i32) -> DriverResult<RawStream> {
        self.inner.create_stream(priority)
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.destroy_stream(stream) }
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.synchronize_stream(stream) }
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> DriverResult<()> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.wait_event(stream, event) },
            |_| (),
            |run, ()| Entry::Wait {
                stream: run.stream(stream),
                record: run.records.get(&event).copied(),
            },
        )
    }

    fn create_event(&self, timing: bool) -> DriverResult<RawEvent> {
        self.inner.create_event(timing)
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.destroy_event(event) }
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> DriverResult<()> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.record_event(event, stream) },
            |_| (),
            |run, ()| {
                run.records.insert(event, run.entries.len());
                Entry::Record {
                    stream: run.stream(stream),
                }
            },
        )
    }

    unsafe fn query_event(&self, event: RawEvent) -> DriverResult<bool> {
        // SAFETY: the caller's.
        unsafe { self.inner.query_event(event) }
    }

    unsafe fn synchronize_event(&self, event: RawEvent) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.synchronize_event(event) }
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32> {
        // SAFETY: the caller's.
        unsafe { self.inner.elapsed_ms(start, end) }
    }

    unsafe fn alloc(&self, bytes: usize, stream: RawStream) -> DriverResult<DeviceAddress> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.alloc(bytes, stream) },
            |state| match state.captured.0.get(state.run.entries.len()) {
                // The graph's own, which it allocates at this place of each replay.
                Some(Entry::Alloc {
                    bytes: same, address, ..
                }) if *same == bytes => *address,
                _ => NOWHERE,
            },
            |run, address| Entry::Alloc {
                stream: run.stream(stream),
                bytes,
                address: *address,
            },
        )
    }

    unsafe fn free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.free(address, stream) },
            |_| (),
            |run, ()| Entry::Free {
                stream: run.stream(stream),
                address,
            },
        )
    }

    fn peer(&self) -> RawPeer {
        self.inner.peer()
    }

    fn peer_access(&self, peer: RawPeer) -> DriverResult<PeerAccess> {
        self.inner.peer_access(peer)
    }

    fn communicator(&self, ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>> {
        self.inner.communicator(ranks)
    }

    unsafe fn copy_peer(
        &self,
        _destination: (RawPeer, DeviceAddress),
        _source: (RawPeer, DeviceAddress),
        _bytes: usize,
        _stream: RawStream,
    ) -> DriverResult<()> {
        // Streams of a capture copy within their device only: the typed API asks for a `Live` one.
        Err(DriverError::new(
            "cuMemcpyPeerAsync",
            ErrorCode::STREAM_CAPTURE_UNSUPPORTED,
        ))
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

    unsafe fn register_host(&self, memory: &HostMemory) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.register_host(memory) }
    }

    unsafe fn unregister_host(&self, memory: &HostMemory) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.unregister_host(memory) }
    }

    unsafe fn copy_to_device(
        &self,
        destination: DeviceAddress,
        source: NonNull<c_void>,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let copied = (Copied::ToDevice, destination.0, number(source), bytes);
        self.pass_copy(copied, stream, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy_to_device(destination, source, bytes, stream) }
        })
    }

    unsafe fn copy_to_host(
        &self,
        destination: NonNull<c_void>,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let copied = (Copied::ToHost, number(destination), source.0, bytes);
        self.pass_copy(copied, stream, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy_to_host(destination, source, bytes, stream) }
        })
    }

    unsafe fn copy(
        &self,
        destination: DeviceAddress,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        let copied = (Copied::Within, destination.0, source.0, bytes);
        self.pass_copy(copied, stream, |inner| {
            // SAFETY: the caller's.
            unsafe { inner.copy(destination, source, bytes, stream) }
        })
    }

    unsafe fn fill(
        &self,
        destination: DeviceAddress,
        pattern: &[u8],
        count: usize,
        stream: RawStream,
    ) -> DriverResult<()> {
        self.pass(
            // SAFETY: the caller's.
            |inner| unsafe { inner.fill(destination, pattern, count, stream) },
            |_| (),
            |run, ()| Entry::Fill {
                stream: run.stream(stream),
                to: destination,
                pattern: pattern.into(),
                count,
            },
        )
    }

    fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()> {
        self.inner.prepare(kernel)
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.pass_launch(kernel, shape, parameters, stream, false) }
    }

    unsafe fn launch_padded(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.pass_launch(kernel, shape, parameters, stream, true) }
    }

    fn foreign(
        &self,
        name: &'static str,
        stream: RawStream,
        uses: &[ForeignUse],
        body: &mut dyn FnMut(),
    ) -> DriverResult<()> {
        let mut state = self.lock();
        if state.mode != Mode::Off {
            let stream = state.run.stream(stream);
            state.run.entries.push(Entry::Foreign { stream, name });
        }
        if state.mode == Mode::DryRun {
            // The stream is not being captured: what the body enqueued would run.
            return Err(DriverError::with_detail(
                "cuStreamIsCapturing",
                ErrorCode::NOT_SUPPORTED,
                "a dry run makes no foreign calls",
            ));
        }
        // The body may call this driver.
        drop(state);
        self.inner.foreign(name, stream, uses, body)
    }

    unsafe fn begin_capture(&self, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.begin_capture(stream) }
    }

    unsafe fn end_capture(&self, stream: RawStream) -> DriverResult<RawGraph> {
        // SAFETY: the caller's.
        unsafe { self.inner.end_capture(stream) }
    }

    unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode> {
        // SAFETY: the caller's.
        unsafe { self.inner.captured_node(stream) }
    }

    unsafe fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.update_graph(graph, stream) }
    }

    unsafe fn set_launch(
        &self,
        graph: RawGraph,
        node: RawNode,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
    ) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.set_launch(graph, node, kernel, shape, parameters) }
    }

    unsafe fn launch_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.launch_graph(graph, stream) }
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) -> DriverResult<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.destroy_graph(graph) }
    }
}
