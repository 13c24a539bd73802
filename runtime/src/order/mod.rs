//! Order: events, fences and handoffs, which say what work waits for what other work.
//!
//! | file | what |
//! |---|---|
//! | `clocks` | what each stream and the host are ordered after: redundant waits are left out |
//! | `event_pool`, `ring` | a device's events, and those of one stream; records and waits |
//! | `live_event` | an event and its leases: a lease is the right to wait for one record |
//! | `fence` | a fence must be over before memory may be touched: it holds leases |
//! | `handoff` | a bundle and its fence, between two owners |
//! | `join` | several handoffs as one |
//! | `last_uses` | the fence of a resource that several owners used |
//! | `future`, `completion` | waits that block no task, and the threads that wait |
//! | `host_task` | closures that a stream runs on the host |
//! | `event`, `timed_event` | order without a bundle, and times |
//! | `observer` | the observer, which is told of events and operations |
//! | `stream_ref` | the form in which buffers and leases remember a stream |
//! | `try_lock` | a value for one thread at a time, for which no thread waits |
//! | `unless` | a guard that acts if a driver's call unwinds |
//!
//! # Where a handoff waits
//!
//! ```text
//!   on the GPU   Stream::acquire       stream/mod.rs   Fence::wait_on, EventLease::wait_on
//!   on the host  Handoff::synchronize  handoff/mod.rs  Fence::synchronize, EventLease::synchronize
//!   in a task    .await, on_done       future.rs       Fence::watch, completion, EventLease::query
//!   dropped      Handoff's drop        handoff/def.rs  Bundle::retire, Fence::wait_on: the stream
//!                                                      for frees
//! ```
//!
//! Each wait is a wait for the handoff's [`Fence`](fence::Fence), which holds leases
//! ([`EventLease`](event_pool::EventLease)). A lease waits for its event. It skips the
//! wait if the waiting stream is already ordered after the event ([`clocks`]).

pub(crate) mod clocks;
pub(crate) mod completion;
pub(crate) mod event;
mod event_figures;
pub(crate) mod event_pool;
pub(crate) mod fence;
pub(crate) mod future;
pub(crate) mod handoff;
pub(crate) mod host_task;
pub(crate) mod join;
pub(crate) mod last_uses;
mod live_event;
pub(crate) mod observer;
mod ring;
pub(crate) mod stream_ref;
pub(crate) mod timed_event;
mod try_lock;
pub(crate) mod unless;
