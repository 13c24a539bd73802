//! Graphs, made by stream capture.
//!
//! A [`RawGraph`] is the address of an [`Instance`]: the executable graph, and its source graph.
//! The source is kept for its nodes, because CUDA names a node of the executable by the node of the
//! source.

use std::ffi::c_void;
use std::ptr;
use std::sync::Once;

use super::context::Context;
use super::error::with_detail;
use super::ffi::{self, CUgraphExecUpdateResult, CUstreamCaptureMode, CUstreamCaptureStatus};
use super::{process_end, stream};
use cuda_rt_driver::LaunchShape;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode, RawGraph, RawNode, RawStream};

/// The object behind a [`RawGraph`].
#[derive(Clone, Copy)]
struct Instance {
    executable: ffi::CUgraphExec,
    source: ffi::CUgraph,
}

fn pointer(graph: RawGraph) -> *mut Instance {
    ptr::with_exposed_provenance_mut(graph.0 as usize)
}

/// # Safety
/// The handle is live.
unsafe fn instance(graph: RawGraph) -> Instance {
    // SAFETY: a live handle is an address that `end` exposed, of an instance that `destroy` has not
    // freed.
    unsafe { *pointer(graph) }
}

/// # Safety
/// As [`Graphs::begin_capture`](cuda_rt_driver::Graphs::begin_capture).
pub(super) unsafe fn begin(context: &Context, stream: RawStream) -> DriverResult<()> {
    let _entered = context.enter()?;
    // Relaxed: the other modes refuse calls of other code in the process, and tie the capture to
    // one thread.
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the stream is live.
    unsafe {
        context
            .library()
            .cuStreamBeginCapture_v2(stream::handle(stream), mode)
    }
}

/// Ends a capture, and returns the graph that was recorded.
///
/// # Safety
/// `stream` is being captured.
unsafe fn recorded(context: &Context, stream: RawStream) -> DriverResult<ffi::CUgraph> {
    let library = context.library();
    let mut graph = ptr::null_mut();
    // SAFETY: the pointer is to a live CUgraph, and the stream is live.
    let ended = unsafe { library.cuStreamEndCapture(stream::handle(stream), &mut graph) };
    if let Err(error) = ended {
        // SAFETY: the stream is live; the graph was just made and is not used again, or is null.
        unsafe { abandon(context, stream, graph) };
        return Err(error);
    }
    if graph.is_null() {
        // CUDA reports in this way that an earlier error ended the capture.
        return Err(DriverError::new(
            "cuStreamEndCapture",
            ErrorCode::STREAM_CAPTURE_INVALIDATED,
        ));
    }
    Ok(graph)
}

/// # Safety
/// As [`Graphs::end_capture`](cuda_rt_driver::Graphs::end_capture).
pub(super) unsafe fn end(context: &Context, stream: RawStream) -> DriverResult<RawGraph> {
    let library = context.library();
    let _entered = context.enter()?;
    // SAFETY: the same contract.
    let source = unsafe { recorded(context, stream) }?;
    // At the next launch, CUDA frees memory that the graph allocated and did not free.
    let flags = ffi::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let mut executable = ptr::null_mut();
    // SAFETY: the pointer is to a live CUgraphExec, and the graph is live.
    let instantiated = unsafe { library.cuGraphInstantiateWithFlags(&mut executable, source, flags) };
    // The first graph may set up more of the driver.
    static FIRST: Once = Once::new();
    FIRST.call_once(process_end::shut_at_exit);
    if let Err(error) = instantiated {
        // SAFETY: the graph is live and not used again.
        let _ = unsafe { library.cuGraphDestroy(source) };
        return Err(error);
    }
    let instance = Box::into_raw(Box::new(Instance { executable, source }));
    Ok(RawGraph(instance.expose_provenance() as u64))
}

/// # Safety
/// As [`Graphs::captured_node`](cuda_rt_driver::Graphs::captured_node).
pub(super) unsafe fn captured_node(context: &Context, stream: RawStream) -> DriverResult<RawNode> {
    const CALL: &str = "cuStreamGetCaptureInfo_v2";
    let library = context.library();
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut graph) = (0, ptr::null_mut());
    let (mut dependencies, mut count) = (ptr::null(), 0);
    // SAFETY: the pointers are to live values, and the stream is live.
    unsafe {
        library.cuStreamGetCaptureInfo_v2(
            stream::handle(stream),
            &mut status,
            &mut id,
            &mut graph,
            &mut dependencies,
            &mut count,
        )
    }?;
    // The dependencies of the stream's next node. Right after an operation there is one: the latest
    // node.
    if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE || count != 1 {
        return Err(DriverError::new(CALL, ErrorCode::ILLEGAL_STATE));
    }
    // SAFETY: `dependencies` is an array of `count` nodes, 1 here; it is valid until the next call
    // on the stream.
    let node = unsafe { *dependencies };
    Ok(RawNode(node.expose_provenance() as u64))
}

/// # Safety
/// As [`Graphs::update_graph`](cuda_rt_driver::Graphs::update_graph).
pub(super) unsafe fn update(context: &Context, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
    let library = context.library();
    let _entered = context.enter()?;
    // SAFETY: the same contract.
    let recorded = unsafe { recorded(context, stream) }?;
    // SAFETY: by this function's contract the graph is live.
    let Instance { executable, .. } = unsafe { instance(graph) };
    let mut node = ptr::null_mut();
    let mut why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS;
    // SAFETY: both graphs are live, no other thread uses them, and the pointers are to live values.
    let updated = unsafe { library.cuGraphExecUpdate(executable, recorded, &mut node, &mut why) };
    // SAFETY: the graph is live and not used again, because an update copies what it needs. If the
    // call fails, the graph leaks, and the update stays made.
    let _ = unsafe { library.cuGraphDestroy(recorded) };
    updated.map_err(|error| match error.code() {
        ErrorCode::GRAPH_EXEC_UPDATE_FAILURE => with_detail(error, explain(why)),
        _ => error,
    })
}

/// `CUgraphExecUpdateResult` in words.
#[cold]
fn explain(why: CUgraphExecUpdateResult) -> &'static str {
    use CUgraphExecUpdateResult as Why;
    match why {
        Why::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED => "its nodes or edges differ",
        Why::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED => "a node has another kind",
        Why::CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED
        | Why::CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE => "a node launches another kernel",
        Why::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED => {
            "a parameter changed that an update cannot change, such as the kind of the memory of a copy \
             (a pool's, managed, mapped)"
        }
        Why::CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED => "CUDA cannot update a node of this kind",
        Why::CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED => {
            "a node's attribute changed that an update cannot change"
        }
        _ => "CUDA gives no reason",
    }
}

/// # Safety
/// As [`Graphs::set_launch`](cuda_rt_driver::Graphs::set_launch); `function` is the kernel's.
pub(super) unsafe fn set_launch(
    context: &Context,
    graph: RawGraph,
    node: RawNode,
    function: ffi::CUfunction,
    shape: &LaunchShape,
    parameters: &[*const c_void],
) -> DriverResult<()> {
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (shape.grid, shape.block);
    let launch = ffi::CUDA_KERNEL_NODE_PARAMS {
        func: function,
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: block_x,
        blockDimY: block_y,
        blockDimZ: block_z,
        sharedMemBytes: shape.shared_bytes,
        // As for cuLaunchKernel: CUDA writes neither to the values nor to the list.
        kernelParams: parameters.as_ptr().cast_mut().cast(),
        extra: ptr::null_mut(),
    };
    let node = ptr::with_exposed_provenance_mut(node.0 as usize);
    let _entered = context.enter()?;
    // SAFETY: by this function's contract the graph is live.
    let Instance { executable, .. } = unsafe { instance(graph) };
    // SAFETY: the graph is live, and no other thread uses it. The node is one of its source graph,
    // which is destroyed together with it. The parameters are as for a launch.
    unsafe {
        context
            .library()
            .cuGraphExecKernelNodeSetParams(executable, node, &launch)
    }
}

/// Restores the stream to its state before a capture that failed.
///
/// # Safety
/// The stream is live; `graph` is live and not used again, or null.
unsafe fn abandon(context: &Context, stream: RawStream, mut graph: ffi::CUgraph) {
    let library = context.library();
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // Errors are dropped here: the capture's own error is the one to report.
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
/// As [`Graphs::launch_graph`](cuda_rt_driver::Graphs::launch_graph).
pub(super) unsafe fn launch(context: &Context, graph: RawGraph, stream: RawStream) -> DriverResult<()> {
    // SAFETY: by this function's contract the graph is live.
    let Instance { executable, .. } = unsafe { instance(graph) };
    let stream = stream::handle(stream);
    // SAFETY: the handles are live, and all memory that the graph uses is live.
    context.enqueue("cuGraphLaunch", |library| unsafe {
        library.cuGraphLaunch(executable, stream)
    })
}

/// # Safety
/// As [`Graphs::destroy_graph`](cuda_rt_driver::Graphs::destroy_graph).
pub(super) unsafe fn destroy(context: &Context, graph: RawGraph) -> DriverResult<()> {
    let _entered = context.enter()?;
    // SAFETY: by this function's contract the handle is live and is not used again; `end` made it
    // from a box.
    let instance = unsafe { Box::from_raw(pointer(graph)) };
    // SAFETY: the executable is live and not used again; CUDA keeps it until pending launches are
    // done.
    let executable = unsafe { context.library().cuGraphExecDestroy(instance.executable) };
    // SAFETY: the source graph is live and not used again.
    let source = unsafe { context.library().cuGraphDestroy(instance.source) };
    executable.and(source)
}
