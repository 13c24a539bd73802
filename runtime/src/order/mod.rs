//! Order: what waits for what.
//!
//! | file | what |
//! |---|---|
//! | `event_pool` | events, and leases: a lease is the right to wait for one record of an event |
//! | `fence` | what must be over before something may be touched: one lease, or several |
//! | `handoff` | a bundle and its fence, between two owners |
//! | `join` | several handoffs as one |
//! | `last_uses` | the fence of what several owners used |
//! | `future`, `completion` | waiting without blocking a thread, and the threads that wait |
//! | `event`, `timed_event` | order that no bundle carries, and times |
//! | `observer` | who is told of events and operations |
//! | `stream_ref` | how buffers and leases remember a stream |
//! | `unless` | what holds where a driver's call unwinds |
//!
//! # Where a handoff waits
//!
//! ```text
//!   on the GPU    Stream::acquire       stream/mod.rs    Fence::wait_on, EventLease::wait_on
//!   on the host   Handoff::synchronize  handoff/mod.rs   Fence::synchronize, EventLease::synchronize
//!   in a task     .await, on_done       future.rs        Fence::watch, completion, EventLease::query
//!   dropped       Handoff's drop        handoff/def.rs   Bundle::retire, Fence::wait_on the reaper
//! ```
//!
//! Each of them waits for the handoff's [`Fence`](fence::Fence), which holds leases
//! ([`EventLease`](event_pool::EventLease)); a lease waits for its event, or leaves the wait out
//! where the stream recorded the event itself.

pub(crate) mod completion;
pub(crate) mod event;
pub(crate) mod event_pool;
pub(crate) mod fence;
pub(crate) mod future;
pub(crate) mod handoff;
pub(crate) mod join;
pub(crate) mod last_uses;
pub(crate) mod observer;
pub(crate) mod stream_ref;
pub(crate) mod timed_event;
pub(crate) mod unless;
