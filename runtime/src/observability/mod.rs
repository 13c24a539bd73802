//! What a program that runs for long shows of itself: the figures of a device
//! ([`Device::metrics`](crate::Device::metrics)), and events for subscribers of the crate
//! `tracing`.
//!
//! # Events
//!
//! With the feature `tracing`, the library tells subscribers of rare things: a device was opened, a
//! pool grew, a call failed, the host waited for long. It tells nothing of each copy and launch:
//! that is what a recording of a [timeline](crate::timeline) is for. The names below are stable.
//! Without a subscriber each place costs one load, and without the feature nothing.
//!
//! | target | level | message | fields |
//! |---|---|---|---|
//! | `cuda_rt::device` | INFO | `device opened` | `name`, `ordinal`, `driver_version` (CUDA's number, 0 if simulated), `simulated` |
//! | `cuda_rt::stream` | DEBUG | `stream created` | `ordinal`, `stream`, `priority` (CUDA's number) |
//! | `cuda_rt::memory` | DEBUG | `pool grown` | `ordinal`, `pool` (`device`, `pinned`), `bytes_before`, `bytes_after` |
//! | `cuda_rt::memory` | DEBUG | `pool trimmed` | `ordinal`, `pool` (`device`, `pinned`, `managed`, `write-combined`), `bytes` that were given back |
//! | `cuda_rt::error` | WARN | `call failed` | `during` (our call, or the kernel), `call` (the driver's), `code`, `code_name`, `detail` |
//! | `cuda_rt::error` | ERROR | `device lost` | the same: each later call fails, and says so again |
//! | `cuda_rt::error` | ERROR | `device takes no more work` | the same, at the first call that is refused because an ordering could not be made |
//! | `cuda_rt::wait` | DEBUG | the span `host_wait` | `stream` |
//! | `cuda_rt::wait` | WARN | `slow host wait` | `stream`, `elapsed_us`, `threshold_us`; see `Device::set_slow_wait` |
//!
//! `ordinal` is the device's number, and `stream` a number that no other stream of the process has.
//! Sizes are in bytes, and times in microseconds of the host's clock, on a simulated device too. A
//! subscriber that listens to DEBUG makes each allocation of a new block ask CUDA for the size of
//! its pool (`cuMemPoolGetAttribute`); `bytes_after` may include what other threads allocated
//! meanwhile.
//!
//! Not told: blocks that go back to a pool, which [`Device::metrics`](crate::Device::metrics)
//! counts; errors of calls that return none, as of destructors, which leak what they could not end;
//! the short wait inside an allocation; and work of the crates of other libraries.
//!
//! # Subscribers
//!
//! A subscriber may call this library, block, and panic. It runs outside of every lock, on the
//! thread whose call it is told of, which waits for it. A panic is caught, and the call goes on.
//! What a subscriber's own calls do is not told. Nothing is told inside a host function and inside
//! a kernel of a simulated device, and no event by a thread that unwinds.

#[cfg(feature = "tracing")]
mod events;
#[cfg(not(feature = "tracing"))]
#[path = "no_events.rs"]
mod events;
mod metrics;

pub(crate) use events::{
    SlowWait, failed, later, opened, pool_grown, pool_trimmed, refused, reserved, stream_created,
};
pub use metrics::{EventMetrics, KeptMetrics, Metrics, StreamMetrics};
