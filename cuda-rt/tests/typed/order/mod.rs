//! Order between streams, and between a stream and the host.

mod completion;
mod event;
mod future;
mod handoff;
mod in_flight;
mod join;
mod redundant;
mod timed_event;
