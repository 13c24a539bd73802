//! The happens-before checker: finds pairs of accesses that nothing orders, in one run, whatever
//! order that run took.
//!
//! It knows operations only, not the typed API: who runs them (*actors*: streams, host threads,
//! foreign agents), what they touch (byte ranges), and what they wait for. Each actor has a
//! [`VectorClock`]; an operation's clock says which operations of every actor happen before it. An
//! access races with an earlier one to the same bytes if one of them writes and the clock does not
//! cover the earlier one.
//!
//! | file | what |
//! |---|---|
//! | `vector_clock` | clocks and epochs |
//! | `shadow` | the last accesses to each range of bytes that can still race |
//! | `checker` | actors, their clocks, and the one comparison |
//! | `monitor` | CUDA's ordering rules for the operations of a [`Driver`](cuda_rt_driver::Driver), captures included |
//! | `checked` | [`Checked`]: the driver that tells the checker of each call |
//!
//! # What it promises
//!
//! An operation is reported exactly if some earlier operation, in the order of the calls, races
//! with it: nothing that could race is forgotten, and nothing ordered is reported. What it forgets,
//! so that memory stays bounded, is ordered before an access to the same bytes that it keeps, or
//! before everything that can still come. The test `tests/litmus/oracle.rs` compares it with
//! reachability over the explicit graph.
//!
//! # What it does not see
//!
//! Accesses that no operation names: pointers inside structs that a kernel follows, and what the
//! host does with a raw pointer.
//!
//! # Host threads
//!
//! In a program as text (the crate `hazard-programs`) each host thread is an actor, for there its
//! start and its join are statements. Over a driver all host threads are *one* actor, in the order
//! of their calls, which is the finest that reports nothing that is ordered. Threads order each
//! other by channels, locks and joins, of which a driver sees nothing. Were each an actor of its
//! own, a correct program would be reported in which one thread waits for an event, and then tells
//! another, which enqueues what relies on it: the very program that the typed API makes of
//! `synchronize`, a channel and `adopt`. Edges that could be told to the checker, such as buffers
//! passing from host to stream, do not help: there would always be a program that orders its
//! threads by something else, idle device memory or a mere flag, and with `CUDA_RT_CHECK=1` a
//! report ends the work.
//!
//! What it costs: work is taken for ordered that is so only because one thread happened to make its
//! call after another had *waited* on the host. Nothing else is lost: the order of calls alone
//! makes no edge between streams, so two threads that enqueue on two streams race as two streams
//! do, whichever calls first. Safe code cannot have the race that is missed. What a host thread has
//! waited for it passes on by moving an idle bundle, and Rust lets a value reach another thread
//! only through something that orders the two. In code that passes raw handles between threads the
//! race shows in those runs in which the threads call in the other order.

mod checked;
#[forbid(unsafe_code)]
mod checker;
#[forbid(unsafe_code)]
mod monitor;
#[forbid(unsafe_code)]
mod shadow;
#[forbid(unsafe_code)]
mod vector_clock;

pub use checked::{CalledAt, Check, Checked, Simulates, Watch, at_statement};
pub use checker::{ActorId, Checker};
pub use cuda_rt_driver::{AccessKind, ActorKind, Operation, Party, Race, Site};
pub use vector_clock::VectorClock;
