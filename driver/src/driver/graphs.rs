//! Graphs: captured, changed, replayed.

use std::ffi::c_void;

use super::calls::group;
use crate::{DriverResult, Kernel, LaunchShape, RawGraph, RawNode, RawStream};

group! {
    /// Graphs: captured, changed, replayed.
    pub trait Graphs, forwarded by $graph_calls {
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

        /// The node that the stream's latest operation became, while the stream is being captured
        /// (`cuStreamGetCaptureInfo`). If the operation became several nodes, this is the last of
        /// them.
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode>;

        /// Ends a capture, and makes later launches of `graph` replay what was recorded
        /// (`cuStreamEndCapture`, `cuGraphExecUpdate`). The graph is not instantiated anew. Pending
        /// launches run as they were. [`set_launch`](Self::set_launch) still takes the nodes of the
        /// first capture.
        ///
        /// On an error the stream is as before the capture. After `GRAPH_EXEC_UPDATE_FAILURE` the
        /// graph is unchanged: the recording has other nodes or edges, or a node changed in a way
        /// that CUDA cannot update. After any other error the graph may be a mixture of both
        /// recordings, and must not be launched.
        ///
        /// # Safety
        /// `stream` is being captured through [`begin_capture`](Self::begin_capture), by the same
        /// calls that `graph` was captured from. These calls allocate nothing. The graph is live,
        /// and no other thread uses it now.
        unsafe fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()>;

        /// Makes later replays of `graph` launch this kernel at `node`
        /// (`cuGraphExecKernelNodeSetParams`). Pending launches run as they were. The driver keeps
        /// nothing of `parameters` after the call.
        ///
        /// # Safety
        /// The graph is live, and no other thread uses it now. `node` is the node of a launch in
        /// the capture that made the graph. `parameters` are as for
        /// [`launch`](crate::Kernels::launch), for every later replay.
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
        /// The handles are live. All memory that the graph uses is live, and not in conflict with
        /// any unordered access.
        unsafe fn launch_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()>;

        /// Destroys a graph (`cuGraphExecDestroy`). Pending launches still run.
        ///
        /// # Safety
        /// The handle is live and is not used again.
        unsafe fn destroy_graph(&self, graph: RawGraph) -> DriverResult<()>;
    }
}
