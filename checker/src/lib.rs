//! The happens-before checker: finds unordered pairs of accesses in one run, whatever order that
//! run took.
//!
//! The checker knows operations only, not the typed API. It is told who runs an operation (an
//! *actor*: a stream, a host thread, a foreign agent), which byte ranges the operation touches, and
//! what it waits for. Each actor has a [`VectorClock`]; an operation's clock says which operations
//! of every actor happen before it. An access races with an earlier access to the same bytes if one
//! of the two writes and the clock does not cover the earlier one.
//!
//! - `vector_clock`: clocks and epochs
//! - `shadow`: the last accesses to each range of bytes that can still race
//! - `checker`: actors, their clocks, and the one comparison
//! - `monitor`: CUDA's ordering rules for the operations of a [`Driver`](cuda_rt_driver::Driver),
//!   captures included
//! - `checked`: [`Checked`]: the driver that tells the checker of each call
//!
//! # What it promises
//!
//! An operation is reported exactly if it races with an earlier operation, in the order of the
//! calls. No access that could still race is forgotten, and no ordered access is reported. To bound
//! its memory, the checker forgets two kinds of access: an access ordered before a later access to
//! the same bytes that it keeps, and an access ordered before everything that can still come. The
//! test `tests/litmus/oracle.rs` compares the checker with reachability over the explicit graph.
//!
//! # What it does not see
//!
//! The checker does not see accesses that no operation names: pointers inside structs that a kernel
//! follows, and what the host does with a raw pointer.
//!
//! # Host threads
//!
//! In a text program (the crate `hazard-programs`) each host thread is an actor: its start and its
//! join are statements there. Over a driver, all host threads are *one* actor, in the order of
//! their calls. No finer rule would leave every ordered program unreported, because threads order
//! each other by channels, locks and joins, which a driver does not see.
//!
//! Counterexample: let each thread be an actor. One thread waits for an event and then tells
//! another thread, which enqueues work that relies on the wait. The program is correct, and would
//! be reported. The typed API makes this very program from `synchronize`, a channel and `adopt`.
//! More edges told to the checker, for example when buffers pass from host to stream, do not help:
//! some program always orders its threads by other means, for example idle device memory or a plain
//! flag. With `CUDA_RT_CHECK=1` a false report would end its work.
//!
//! The cost: two operations count as ordered if one thread happened to make its call after another
//! thread had *waited* on the host. Nothing else is lost. The order of calls alone makes no edge
//! between streams, so two threads that enqueue on two streams still race as two streams do,
//! whichever thread calls first.
//!
//! Safe code cannot have the race that is missed. A host thread passes on the result of its wait by
//! moving an idle bundle, and Rust lets a value reach another thread only through an operation that
//! orders the two threads. In code that passes raw handles between threads, the race shows in runs
//! in which the threads call in the other order.

mod checked;
#[forbid(unsafe_code)]
mod checker;
#[forbid(unsafe_code)]
mod monitor;
#[forbid(unsafe_code)]
mod shadow;
#[forbid(unsafe_code)]
mod vector_clock;

pub use checked::{Check, Checked, Simulates, Watch, at_statement};
pub use checker::{ActorId, Checker};
pub use cuda_rt_driver::{AccessKind, ActorKind, Operation, Party, Race, Site};
pub use vector_clock::VectorClock;
