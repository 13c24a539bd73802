//! Events: marks in streams.

use super::calls::group;
use crate::{DriverResult, RawEvent, RawStream};

group! {
    /// Events: recorded in streams, waited for by the host, compared by time.
    pub trait Events, forwarded by $event_calls {
        /// Creates an event (`cuEventCreate`). Without `timing` it has the flag
        /// `CU_EVENT_DISABLE_TIMING`.
        fn create_event(&self, timing: bool) -> DriverResult<RawEvent>;

        /// Destroys an event (`cuEventDestroy`). Work that waits for the event's last record still
        /// waits.
        ///
        /// # Safety
        /// The handle is live and is not used again.
        unsafe fn destroy_event(&self, event: RawEvent) -> DriverResult<()>;

        /// Records all work that `stream` holds now (`cuEventRecord`).
        ///
        /// # Safety
        /// Both handles are live.
        unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> DriverResult<()>;

        /// Whether the event's last record is done (`cuEventQuery`). Never blocks. A simulated
        /// device makes some progress at each call, so that a loop of queries ends.
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn query_event(&self, event: RawEvent) -> DriverResult<bool>;

        /// Blocks the host until the event's last record is done (`cuEventSynchronize`).
        ///
        /// # Safety
        /// The handle is live.
        unsafe fn synchronize_event(&self, event: RawEvent) -> DriverResult<()>;

        /// Milliseconds from `start` to `end` (`cuEventElapsedTime`). A simulated device models
        /// them.
        ///
        /// # Safety
        /// Both events are live, were created with timing, were recorded, and have been seen done.
        unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> DriverResult<f32>;
    }
}
