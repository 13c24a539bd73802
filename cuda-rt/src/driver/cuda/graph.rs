//! Graphs, by stream capture.

use std::ptr;

use cudarc::driver::sys::{self, CUstreamCaptureMode, CUstreamCaptureStatus};

use super::context::Context;
use super::stream;
use crate::driver::{DriverError, DriverResult, ErrorCode, RawGraph, RawStream};

fn handle(graph: RawGraph) -> sys::CUgraphExec {
    ptr::with_exposed_provenance_mut(graph.0 as usize)
}

/// # Safety
/// As [`Driver::begin_capture`](crate::driver::Driver::begin_capture).
pub(super) unsafe fn begin(context: &Context, stream: RawStream) -> DriverResult<()> {
    let _entered = context.enter()?;
    // Relaxed: the other modes refuse calls of other code in the process, and tie the capture to a thread.
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the stream is live.
    unsafe {
        context
            .library()
            .cuStreamBeginCapture_v2(stream::handle(stream), mode)
    }
}

/// # Safety
/// As [`Driver::end_capture`](crate::driver::Driver::end_capture).
pub(super) unsafe fn end(context: &Context, stream: RawStream) -> DriverResult<RawGraph> {
    let library = context.library();
    let _entered = context.enter()?;
    let mut graph = ptr::null_mut();
    // SAFETY: the pointer is to a live CUgraph, and the stream is live.
    let ended = unsafe { library.cuStreamEndCapture(stream::handle(stream), &mut graph) };
    if let Err(error) = ended {
        // SAFETY: the stream is live, and the graph is one that was just made, if any.
        unsafe { abandon(context, stream, graph) };
        return Err(error);
    }
    if graph.is_null() {
        // CUDA's way to say that the capture was ended by an error before.
        return Err(DriverError::new(
            "cuStreamEndCapture",
            ErrorCode::STREAM_CAPTURE_INVALIDATED,
        ));
    }

    // Memory that the graph allocates and does not free is freed when it is launched again.
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0;
    let mut executable = ptr::null_mut();
    // SAFETY: the pointer is to a live CUgraphExec, and the graph is live.
    let instantiated = unsafe { library.cuGraphInstantiateWithFlags(&mut executable, graph, flags.into()) };
    // SAFETY: the graph is live and not used again: an executable graph doesn't need the one it was made from.
    let destroyed = unsafe { library.cuGraphDestroy(graph) };
    instantiated?;
    if let Err(error) = destroyed {
        // SAFETY: the executable graph is live and not used again.
        let _ = unsafe { library.cuGraphExecDestroy(executable) };
        return Err(error);
    }
    Ok(RawGraph(executable.expose_provenance() as u64))
}

/// Leaves the stream as before a capture that failed.
///
/// # Safety
/// The stream is live; `graph` is live and not used again, or null.
unsafe fn abandon(context: &Context, stream: RawStream, mut graph: sys::CUgraph) {
    let library = context.library();
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // Errors are dropped here: the one that counts is the capture's.
    // SAFETY: the pointer is to a live status, and the stream is live.
    let known = unsafe { library.cuStreamIsCapturing(stream::handle(stream), &mut status) };
    if known.is_ok() && status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE && graph.is_null() {
        // SAFETY: the pointer is to a live CUgraph, and the stream is live.
        let _ = unsafe { library.cuStreamEndCapture(stream::handle(stream), &mut graph) };
    }
    if !graph.is_null() {
        // SAFETY: the graph is live and not used again.
        let _ = unsafe { library.cuGraphDestroy(graph) };
    }
}

/// # Safety
/// As [`Driver::launch_graph`](crate::driver::Driver::launch_graph).
pub(super) unsafe fn launch(context: &Context, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
    let (graph, stream) = (handle(graph), stream::handle(stream));
    // SAFETY: the handles are live, and so is all that the graph uses.
    context.enqueue(|| unsafe { context.library().cuGraphLaunch(graph, stream) })
}

/// # Safety
/// As [`Driver::destroy_graph`](crate::driver::Driver::destroy_graph).
pub(super) unsafe fn destroy(context: &Context, graph: RawGraph) -> DriverResult<()> {
    let _entered = context.enter()?;
    // SAFETY: the caller gives up a live handle; CUDA keeps it until launches that are pending are done.
    unsafe { context.library().cuGraphExecDestroy(handle(graph)) }
}
