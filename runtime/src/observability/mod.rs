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
//! | target `cuda_rt::` | level | message | fields |
//! |---|---|---|---|
//! | `device` | INFO | `device opened` | `name`, `ordinal`, `driver_version`, `simulated` |
//! | `stream` | DEBUG | `stream created` | `ordinal`, `stream`, `priority` |
//! | `memory` | DEBUG | `pool grown` | `ordinal`, `pool`, `bytes_before`, `bytes_after` |
//! | `memory` | DEBUG | `pool trimmed` | `ordinal`, `pool`, `bytes` |
//! | `error` | WARN | `call failed` | `during`, `call`, `code`, `code_name`, `detail` |
//! | `error` | ERROR | `device lost` | the same |
//! | `error` | ERROR | `device takes no more work` | the same |
//! | `wait` | DEBUG | the span `host_wait` | `stream` |
//! | `wait` | WARN | `slow host wait` | `stream`, `elapsed_us`, `threshold_us` |
//!
//! - `ordinal` is the device's number, `stream` a number that no other stream of the process has,
//!   `priority` and `driver_version` are CUDA's numbers (a simulated device has version 0).
//! - `pool` is `device` (CUDA's pool), `pinned`, `managed` or `write-combined`. The last two do not
//!   say when they grow. The sizes of `pool grown` are all bytes of the pool, which may include
//!   what other threads allocated meanwhile; `bytes` of `pool trimmed` were given back.
//! - `during` is our call or the kernel, and `call` the driver's. `device lost` comes again with
//!   each later call, `device takes no more work` with the first call that is refused because an
//!   ordering could not be made.
//! - A wait is slow from the time on that `Device::set_slow_wait` says. Times are in microseconds
//!   of the host's clock, on a simulated device too.
//!
//! A subscriber that listens to DEBUG makes each allocation of a new block ask CUDA for the size of
//! its pool (`cuMemPoolGetAttribute`).
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
//!
//! Code that calls this library under a lock of its own keeps the promise by [`hold_events`].

#[cfg(feature = "tracing")]
mod events;
#[cfg(not(feature = "tracing"))]
#[path = "no_events.rs"]
mod events;
mod held;
mod metrics;

pub(crate) use events::{
    SlowWait, failed, later, opened, pool_grown, pool_trimmed, refused, reserved, stream_created,
};
pub use held::{HeldEvents, hold_events};
pub use metrics::{EventMetrics, KeptMetrics, Metrics, StreamMetrics};
