//! Streams: queues of work, and what others enqueue there.

use super::calls::group;
use crate::{DriverResult, ForeignUse, RawEvent, RawStream};

group! {
    /// Streams: made, waited for, asked, ended.
    pub trait Streams, forwarded by $stream_calls {
        /// Creates a non-blocking stream (`cuStreamCreateWithPriority`, `CU_STREAM_NON_BLOCKING`).
        /// `priority` is clamped to [`priority_range`](crate::Properties::priority_range).
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

        /// Whether all work of the stream is done; never blocks (`cuStreamQuery`). A simulated
        /// device makes some progress at each call, so that a loop of queries ends. A stream that
        /// is being captured is no more to be asked than to be waited for: the call fails, and ends
        /// the capture.
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn query_stream(&self, stream: RawStream) -> DriverResult<bool>;

        /// Makes later work of `stream` wait for `event`'s most recent record; an event never
        /// recorded counts as done (`cuStreamWaitEvent`). The stream may be another device's, if
        /// [`peer_access`](crate::Peers::peer_access) knows that device.
        ///
        /// # Safety
        /// Both handles are live.
        unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> DriverResult<()>;

        /// Runs `body` once, in which code that this driver knows nothing of enqueues work on
        /// `stream`: with the context current, and the thread in relaxed capture mode. `name` and
        /// `uses` tell what that work is and what it uses, for a checker; others ignore them. A
        /// driver that wraps another must pass the call on. On an error `body` has not run.
        fn foreign(
            &self,
            name: &'static str,
            stream: RawStream,
            uses: &[ForeignUse],
            body: &mut dyn FnMut(),
        ) -> DriverResult<()>;
    }
}
