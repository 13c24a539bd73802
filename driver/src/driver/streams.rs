//! Streams: queues of work, and work that foreign code enqueues there.

use super::calls::group;
use crate::{DriverError, DriverResult, ForeignUse, HostFunction, RawEvent, RawStream};

group! {
    /// Streams: created, waited for, queried, destroyed.
    pub trait Streams, forwarded by $stream_calls {
        /// Creates a non-blocking stream (`cuStreamCreateWithPriority`, `CU_STREAM_NON_BLOCKING`).
        /// `priority` is clamped to [`priority_range`](crate::Properties::priority_range).
        fn create_stream(&self, priority: i32) -> DriverResult<RawStream>;

        /// Destroys a stream once its work is done (`cuStreamDestroy`). Does not block.
        ///
        /// # Safety
        /// The handle is live and is not used again.
        unsafe fn destroy_stream(&self, stream: RawStream) -> DriverResult<()>;

        /// Blocks the host until all work of the stream is done (`cuStreamSynchronize`).
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn synchronize_stream(&self, stream: RawStream) -> DriverResult<()>;

        /// Whether all work of the stream is done (`cuStreamQuery`). Never blocks. A simulated
        /// device makes some progress at each call, so that a loop of queries ends. A stream that
        /// is being captured can be neither queried nor waited for: the call fails, and ends the
        /// capture.
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn query_stream(&self, stream: RawStream) -> DriverResult<bool>;

        /// Makes later work of `stream` wait for `event`'s most recent record
        /// (`cuStreamWaitEvent`). An event that was never recorded counts as done. The stream may
        /// be on another device, if [`peer_access`](crate::Peers::peer_access) knows that device.
        ///
        /// # Safety
        /// Both handles are live.
        unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> DriverResult<()>;

        /// Runs `function` on a thread of the host, after the stream's earlier work and before its
        /// later work (`cuLaunchHostFunc`). Waits for the stream, and events recorded later, cover
        /// it. On a stream that is being captured the function becomes a node of the graph: each
        /// replay runs it, and no two replays of one graph run at once.
        ///
        /// Host functions of different streams run in any order, and possibly one after another. A
        /// function may never run, if the device is lost first or the process ends. `uses` tells a
        /// checker which page-locked memory the function uses; other drivers ignore it.
        ///
        /// # Safety
        /// The handle is live. `function.run` may be called with `function.data` on any thread when
        /// the stream gets there, and at each replay. The function does not unwind, makes no driver
        /// calls, and waits for no work that is not ordered before it. Its memory is live then, and
        /// not in conflict with any unordered access.
        unsafe fn launch_host_function(
            &self,
            stream: RawStream,
            function: HostFunction,
            uses: &[ForeignUse],
        ) -> DriverResult<()>;

        /// Makes every later call fail with the code and the reason of `why`, as after a sticky
        /// error: a host function has failed, so no pending work counts as finished. Once this call
        /// has returned, no wait returns `Ok`. The first loss counts. Calls nothing of CUDA, and is
        /// the one call that a host function may make.
        fn lose(&self, why: DriverError) -> DriverResult<()>;

        /// Runs `body` once, with the context current and the thread in relaxed capture mode. In
        /// `body`, code unknown to this driver enqueues work on `stream`.
        ///
        /// `name` and `uses` tell a checker which work it is and which memory it uses; other
        /// drivers ignore them. A driver that wraps another must pass the call on. If the call
        /// returns an error, `body` has not run.
        fn foreign(
            &self,
            name: &'static str,
            stream: RawStream,
            uses: &[ForeignUse],
            body: &dyn Fn(),
        ) -> DriverResult<()>;
    }
}
