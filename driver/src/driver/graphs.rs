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

        /// The node that the latest operation of a stream became, while the stream is being
        /// captured (`cuStreamGetCaptureInfo`). Its last one, of an operation that took several.
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn captured_node(&self, stream: RawStream) -> DriverResult<RawNode>;

        /// Ends a capture, and makes later launches of `graph` replay what was recorded, without
        /// instantiating it anew (`cuStreamEndCapture`, `cuGraphExecUpdate`). Launches that are
        /// pending run as they were. The nodes that [`set_launch`](Self::set_launch) knows stay
        /// those of the first capture.
        ///
        /// On an error the stream is as before the capture. The graph is as it was after
        /// `GRAPH_EXEC_UPDATE_FAILURE`: what was recorded has other nodes or edges, or a node
        /// changed in a way that CUDA does not update. After any other error it may be part of
        /// either, and must not be launched.
        ///
        /// # Safety
        /// `stream` is being captured through [`begin_capture`](Self::begin_capture), by the calls
        /// that `graph` was captured from, which allocate nothing; the graph is live, and no other
        /// thread uses it now.
        unsafe fn update_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()>;

        /// Makes later replays of `graph` launch this at `node` (`cuGraphExecKernelNodeSetParams`).
        /// Launches that are pending run as they were. Nothing is retained of `parameters` when it
        /// returns.
        ///
        /// # Safety
        /// The graph is live, and no other thread uses it now; `node` is that of a launch in the
        /// capture that it was made from. `parameters` are as for
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
        /// The handles are live; all memory that the graph uses is live and not in conflict with
        /// any unordered access.
        unsafe fn launch_graph(&self, graph: RawGraph, stream: RawStream) -> DriverResult<()>;

        /// Destroys a graph; launches that are pending still run (`cuGraphExecDestroy`).
        ///
        /// # Safety
        /// The handle is live and is not used again.
        unsafe fn destroy_graph(&self, graph: RawGraph) -> DriverResult<()>;
    }
}
