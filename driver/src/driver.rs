//! [`Driver`]: everything that the runtime asks of a GPU.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use crate::Race;
use crate::{
    Communicator, DeviceAddress, DriverResult, ForeignUse, Hint, HostMemory, MemoryInfo, MemoryPoolStats,
    PeerAccess, Properties, RawEvent, RawGraph, RawNode, RawPeer, RawStream, Simulated, Trace,
};
use crate::{Kernel, LaunchShape};

/// Raw operations of one device: its context, streams, events, memory and kernels.
///
/// An instance drives one context and keeps it alive. Every method may be called from any thread,
/// and makes its context current first where the call needs one: other libraries in the process
/// change it.
///
/// **Order.** Unless it says that it blocks, an operation that takes a stream is enqueued there and
/// returns at once; the device runs the operations of one stream in order and those of different
/// streams in any order that events allow. Streams are non-blocking with respect to the default
/// stream, which is never used.
///
/// **Errors.** An operation that returns an error has enqueued nothing, allocated nothing and freed
/// nothing. A *sticky* error ([`DriverError::is_sticky`](crate::DriverError::is_sticky)) means that
/// the context is lost: every later call fails too, and no pending work can be assumed to have
/// finished.
///
/// **Unwinding.** No method unwinds, here or in [`Communicator`]: a panic inside an implementation
/// is a sticky error. [`foreign`](Self::foreign) alone passes on a panic of its `body`. The typed
/// API stays sound under an implementation that unwinds (`unless.rs`): it leaks what the GPU may
/// still use, and refuses what it can no longer order.
///
/// # Safety
///
/// An implementation must provide the order stated above, must give out only memory that nothing
/// else uses, and must report a wait as finished only when it is. It must not unwind.
pub unsafe trait Driver: Send + Sync + fmt::Debug {
    /// What is fixed about the device. Calls nothing.
    fn properties(&self) -> &Properties;

    /// The handle of the simulated device behind this driver, if it is one.
    fn simulator(&self) -> Option<&dyn Simulated> {
        None
    }

    /// Whether a checker follows the calls.
    fn is_checked(&self) -> bool {
        false
    }

    /// The races that a checker found; none without one.
    fn races(&self) -> Vec<Race> {
        Vec::new()
    }

    /// Tells a checker what no other call says. Does nothing without one.
    fn hint(&self, _note: Hint<'_>) {}

    /// Begins to trace the device's work with the hardware's own times, where that is possible.
    fn begin_trace(&self) -> Option<Box<dyn Trace>> {
        None
    }

    /// Free and total device memory (`cuMemGetInfo`). Memory kept by the pool for reuse counts as
    /// used.
    fn memory_info(&self) -> DriverResult<MemoryInfo>;

    // Streams

    /// Creates a non-blocking stream (`cuStreamCreateWithPriority`, `CU_STREAM_NON_BLOCKING`).
    /// `priority` is clamped to [`Properties::priority_range`].
    fn create_stream(&self, priority: i32) -> DriverResult<RawStream>;

    /// Destroys a stream once its work is done; does not block (`cuStreamDestroy`).
    ///
    /// # Safety
    /// The handle is live and is not used again.
    unsafe fn destroy_stream(&self, stream: RawStream) -> DriverResult<()>;

    /// Blocks the host until all work of the stream is done (`cuStreamSynchronize`).
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn synchronize_stream(&self, stream: RawStream) -> DriverResult<()>;

    /// Makes later work of `stream` wait for `event`'s most recent record; an event never recorded
    /// counts as done (`cuStreamWaitEvent`). The stream may be another device's, if
    /// [`peer_access`](Self::peer_access) knows that device.
    ///
    /// # Safety
    /// Both handles are live.
    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> DriverResult<()>;

    // Events

    /// Creates an event (`cuEventCreate`), with timing where asked (`CU_EVENT_DISABLE_TIMING`
    /// else).
    fn create_event(&self, timing: bool) -> DriverResult<RawEvent>;

    /// Destroys an event; work that waits for its last record still does (`cuEventDestroy`).
    ///
    /// # Safety
    /// The handle is live and is not used again.
    unsafe fn destroy_event(&self, event: RawEvent) -> DriverResult<()>;

    /// Records all work that `stream` holds now (`cuEventRecord`).
    ///
    /// # Safety
    /// Both handles are live.
    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> DriverResult<()>;

    /// Whether the event's last record is done; never blocks (`cuEventQuery`). A simulated device
    /// makes some progress at each call, so that a loop of queries ends.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn query_event(&self, event: RawEvent) -> DriverResult<bool>;

    /// Blocks the host until the event's last record is done (`cuEventSynchronize`).
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn synchronize_event(&self, event: RawEvent) -> DriverResult<()>;

    /// Milliseconds from `start` to `end` (`cuEventElapsedTime`); modelled on a simulated device.
    ///
    /// # Safety
    /// Both are live, were created with timing, recorded, and seen done.
    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32>;

    // Memory

    /// Allocates `bytes` (more than 0) in stream order from the device's own pool, aligned to 256
    /// bytes (`cuMemAllocFromPoolAsync`). What the memory holds is unspecified.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn alloc(&self, bytes: usize, stream: RawStream) -> DriverResult<DeviceAddress>;

    /// Frees in stream order (`cuMemFreeAsync`).
    ///
    /// # Safety
    /// `address` came from [`alloc`](Self::alloc) of this driver, every use is ordered before this
    /// place in `stream`, and it is not used again.
    unsafe fn free(&self, address: DeviceAddress, stream: RawStream) -> DriverResult<()>;

    /// What the pool of [`alloc`](Self::alloc) holds (`cuMemPoolGetAttribute`).
    fn pool_stats(&self) -> DriverResult<MemoryPoolStats>;

    /// Starts the peaks of [`pool_stats`](Self::pool_stats) anew, from what there is now
    /// (`cuMemPoolSetAttribute`).
    fn reset_pool_peaks(&self) -> DriverResult<()>;

    /// Sets how much unused memory the pool keeps when the host synchronises with a stream or event
    /// (`cuMemPoolSetAttribute`). At first it keeps all.
    fn set_release_threshold(&self, bytes: u64) -> DriverResult<()>;

    /// Gives unused memory back to the device until the pool holds no more than `keep_bytes`, or
    /// nothing else unused (`cuMemPoolTrimTo`). Memory whose free is still pending counts as used.
    /// May block.
    fn trim_pool(&self, keep_bytes: u64) -> DriverResult<()>;

    /// Page-locks host memory for every context of the process (`cuMemHostRegister`, portable), so
    /// that copies from and to it are asynchronous.
    ///
    /// # Safety
    /// The memory stays mapped until [`unregister_host`](Self::unregister_host), and is not
    /// registered yet.
    unsafe fn register_host(&self, memory: &HostMemory) -> DriverResult<()>;

    /// Undoes [`register_host`](Self::register_host) (`cuMemHostUnregister`). May block.
    ///
    /// # Safety
    /// `memory` is registered here and no pending work uses it.
    unsafe fn unregister_host(&self, memory: &HostMemory) -> DriverResult<()>;

    /// Copies `bytes` of page-locked host memory to the device, in stream order
    /// (`cuMemcpyHtoDAsync`).
    ///
    /// # Safety
    /// Both ranges are live, in bounds, and not in conflict with any unordered access until the
    /// copy is done.
    unsafe fn copy_to_device(
        &self,
        destination: DeviceAddress,
        source: NonNull<c_void>,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()>;

    /// Copies `bytes` of device memory to page-locked host memory, in stream order
    /// (`cuMemcpyDtoHAsync`).
    ///
    /// # Safety
    /// As [`copy_to_device`](Self::copy_to_device).
    unsafe fn copy_to_host(
        &self,
        destination: NonNull<c_void>,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()>;

    /// Copies `bytes` within the device, in stream order (`cuMemcpyDtoDAsync`). The ranges do not
    /// overlap.
    ///
    /// # Safety
    /// As [`copy_to_device`](Self::copy_to_device).
    unsafe fn copy(
        &self,
        destination: DeviceAddress,
        source: DeviceAddress,
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()>;

    /// How other devices name this one. Calls nothing.
    fn peer(&self) -> RawPeer;

    /// Lets this device get at what [`alloc`](Self::alloc) of `peer` gives out, from now on, and
    /// says how it does (`cuDeviceCanAccessPeer`, `cuMemPoolSetAccess`). Cheap once done. An error
    /// if `peer` is no device that this one can exchange anything with, events included: one of
    /// another backend, or of another simulated host.
    fn peer_access(&self, peer: RawPeer) -> DriverResult<PeerAccess>;

    /// Copies `bytes` from memory of one device to memory of another, of which one is this device,
    /// in the order of `stream`, which is this device's (`cuMemcpyDtoDAsync`, where
    /// [`peer_access`](Self::peer_access) said that it is direct; else `cuMemcpyPeerAsync`).
    ///
    /// # Safety
    /// As [`copy_to_device`](Self::copy_to_device), and `peer_access` of the other device has
    /// succeeded.
    unsafe fn copy_peer(
        &self,
        destination: (RawPeer, DeviceAddress),
        source: (RawPeer, DeviceAddress),
        bytes: usize,
        stream: RawStream,
    ) -> DriverResult<()>;

    /// Makes ranks of this device and others, by rank, this one among them (`ncclCommInitAll`).
    /// Blocks for as long as the devices take to connect. Where two of them have a link,
    /// [`peer_access`](Self::peer_access) was asked for both ways before: what the ranks send and
    /// receive is used by all of them.
    fn communicator(&self, ranks: &[RawPeer]) -> DriverResult<Box<dyn Communicator>>;

    /// Writes `pattern` (1 byte or more) `count` times, one after another, in stream order
    /// (`cuMemsetD8Async`, `cuMemsetD16Async`, `cuMemsetD32Async`, and their 2-D forms for longer
    /// patterns). `destination` may have any alignment: elements of 4 bytes may need an alignment
    /// of 2 only.
    ///
    /// # Safety
    /// As [`copy_to_device`](Self::copy_to_device).
    unsafe fn fill(
        &self,
        destination: DeviceAddress,
        pattern: &[u8],
        count: usize,
        stream: RawStream,
    ) -> DriverResult<()>;

    // Kernels

    /// Makes a kernel ready to launch: loads its module, finds its entry and compares the layouts
    /// of its parameters (`cuModuleLoadDataEx`, `cuModuleGetFunction`). Cheap once done;
    /// [`launch`](Self::launch) does it too.
    fn prepare(&self, kernel: &'static Kernel) -> DriverResult<()>;

    /// Launches a kernel in stream order (`cuLaunchKernel`). Nothing is retained of `parameters`
    /// when it returns.
    ///
    /// # Safety
    /// `parameters` has one pointer for each of `kernel.parameters`, to a live value of that size
    /// and layout; the memory that the pointers among them name is live, in bounds and not in
    /// conflict with any unordered access until the kernel is done.
    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
    ) -> DriverResult<()>;

    /// As [`launch`](Self::launch), where values may have padding, whose bytes hold nothing: they
    /// are copied and never looked at.
    ///
    /// # Safety
    /// As there.
    unsafe fn launch_padded(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
    ) -> DriverResult<()> {
        // SAFETY: the same contract.
        unsafe { self.launch(kernel, shape, parameters, stream) }
    }

    // Others

    /// Runs `body` once, in which code that this driver knows nothing of enqueues work on `stream`:
    /// with the context current, and the thread in relaxed capture mode. `name` and `uses` tell
    /// what that work is and what it uses, for a checker; others ignore them. A driver that wraps
    /// another must pass the call on. On an error `body` has not run.
    fn foreign(
        &self,
        name: &'static str,
        stream: RawStream,
        uses: &[ForeignUse],
        body: &mut dyn FnMut(),
    ) -> DriverResult<()> {
        let _ = (name, stream, uses);
        body();
        Ok(())
    }

    // Graphs

    /// Starts to record `stream`'s work instead of running it (`cuStreamBeginCapture`, relaxed
    /// mode). Streams that wait for events recorded in the capture join it.
    ///
    /// # Safety
    /// The handle is live and nothing else uses the stream until
    /// [`end_capture`](Self::end_capture).
    unsafe fn begin_capture(&self, stream: RawStream) -> DriverResult<()>;

    /// Ends a capture and instantiates what was recorded (`cuStreamEndCapture`,
    /// `cuGraphInstantiate`). On an error the stream is as before the capture.
    ///
    /// # Safety
    /// `stream` is being captured through [`begin_capture`](Self::begin_capture).
    unsafe fn end_capture(&self, stream: RawStream) -> DriverResult<RawGraph>;

    /// The node that the latest operation of a stream became, while the stream is being captured
    /// (`cuStreamGetCaptureInfo`). Its last one, of an operation that took several.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode>;

    /// Ends a capture, and makes later launches of `graph` replay what was recorded, without
    /// instantiating it anew (`cuStreamEndCapture`, `cuGraphExecUpdate`). Launches that are pending
    /// run as they were. The nodes that [`set_launch`](Self::set_launch) knows stay those of the
    /// first capture.
    ///
    /// On an error the stream is as before the capture. The graph is as it was after
    /// `GRAPH_EXEC_UPDATE_FAILURE`: what was recorded has other nodes or edges, or a node changed
    /// in a way that CUDA does not update. After any other error it may be part of either, and must
    /// not be launched.
    ///
    /// # Safety
    /// `stream` is being captured through [`begin_capture`](Self::begin_capture), by the calls that
    /// `graph` was captured from, which allocate nothing; the graph is live, and no other thread
    /// uses it now.
    unsafe fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()>;

    /// Makes later replays of `graph` launch this at `node` (`cuGraphExecKernelNodeSetParams`).
    /// Launches that are pending run as they were. Nothing is retained of `parameters` when it
    /// returns.
    ///
    /// # Safety
    /// The graph is live, and no other thread uses it now; `node` is that of a launch in the
    /// capture that it was made from. `parameters` are as for [`launch`](Self::launch), for every
    /// later replay.
    unsafe fn set_launch(
        &self,
        graph: RawGraph,
        node: RawNode,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
    ) -> DriverResult<()>;

    /// Replays a graph in stream order (`cuGraphLaunch`).
    ///
    /// # Safety
    /// The handles are live; all memory that the graph uses is live and not in conflict with any
    /// unordered access.
    unsafe fn launch_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()>;

    /// Destroys a graph; launches that are pending still run (`cuGraphExecDestroy`).
    ///
    /// # Safety
    /// The handle is live and is not used again.
    unsafe fn destroy_graph(&self, graph: RawGraph) -> DriverResult<()>;
}
