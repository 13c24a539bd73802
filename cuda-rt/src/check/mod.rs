//! The happens-before checker: finds pairs of accesses that nothing orders, in one run, whatever order that run took.
//!
//! It knows operations only, not the typed API: who runs them (*actors*: streams, host threads, foreign agents), what they
//! touch (byte ranges), and what they wait for. Each actor has a [`VectorClock`]; an operation's clock says which
//! operations of every actor happen before it. An access races with an earlier one to the same bytes if one of them
//! writes and the clock does not cover the earlier one.
//!
//! | file | what |
//! |---|---|
//! | `vector_clock` | clocks and epochs |
//! | `shadow` | the last accesses to each range of bytes that can still race |
//! | `checker` | actors, their clocks, and the one comparison |
//! | `report` | what a race is called, and which call would mend it |
//! | `rules` | CUDA's ordering rules: the legacy default stream, events, host waits |
//! | `monitor` | those rules for the operations of a [`Driver`](crate::driver::Driver), captures included |
//! | [`program`] | short programs as text, and their verdicts |
//!
//! # What it promises
//!
//! An operation is reported exactly if some earlier operation, in the order of the calls, races with it: nothing that could
//! race is forgotten, and nothing ordered is reported. What it forgets, so that memory stays bounded, is ordered before
//! an access to the same bytes that it keeps, or before everything that can still come. The test
//! `tests/litmus/oracle.rs` compares it with reachability over the explicit graph.
//!
//! # What it does not see
//!
//! Accesses that no operation names: pointers inside structs that a kernel follows, and what the host does with a raw pointer.
//! Over a driver all host threads count as one, in the order of their calls: Rust's own rules order them, and the
//! channels by which they do are not seen here.

mod checker;
mod monitor;
pub mod program;
mod report;
mod rules;
mod shadow;
mod vector_clock;

pub use checker::{ActorId, Checker, Operation};
pub use report::{ActorKind, Party, Race, Site};
pub use shadow::AccessKind;
pub use vector_clock::VectorClock;

pub(crate) use monitor::Monitor;
