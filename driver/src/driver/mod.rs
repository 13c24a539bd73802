//! [`Driver`]: everything that the runtime asks of a GPU, in groups of calls.

mod calls;
mod copies;
mod events;
mod graphs;
mod kernels;
mod memory;
mod peers;
mod streams;

use std::fmt;

pub use copies::Copies;
pub use events::Events;
pub use graphs::Graphs;
pub use kernels::Kernels;
pub use memory::Memory;
pub use peers::Peers;
pub use streams::Streams;

use crate::Properties;

/// Raw operations of one device: its context, streams, events, memory and kernels.
///
/// The calls are in groups, each a trait of its own. This trait is their union, and holds the
/// promise for all of them: a type that implements the groups alone promises nothing.
///
/// An instance drives one context and keeps it alive. Every method may be called from any thread,
/// and makes its context current first where the call needs one: other libraries in the process
/// change it.
///
/// **Order.** Unless it says that it blocks, an operation that takes a stream is enqueued there and
/// returns at once; the device runs the operations of one stream in order and those of different
/// streams in any order that events allow. Streams are non-blocking with respect to the default
/// stream, which is never used.
///
/// **Errors.** An operation that returns an error has enqueued nothing, allocated nothing and freed
/// nothing. A *sticky* error ([`DriverError::is_sticky`](crate::DriverError::is_sticky)) means that
/// the context is lost: every later call fails too, and no pending work can be assumed to have
/// finished.
///
/// **Unwinding.** No method unwinds, here or in [`Communicator`](crate::Communicator): a panic
/// inside an implementation is a sticky error. [`foreign`](Streams::foreign) alone passes on a
/// panic of its `body`. The typed API stays sound under an implementation that unwinds
/// (`unless.rs`): it leaks what the GPU may still use, and refuses what it can no longer order.
///
/// # Safety
///
/// An implementation must provide the order stated above, must give out only memory that nothing
/// else uses, and must report a wait as finished only when it is. It must not unwind.
pub unsafe trait Driver:
    Streams + Events + Memory + Copies + Peers + Kernels + Graphs + Send + Sync + fmt::Debug
{
    /// What is fixed about the device. Calls nothing.
    fn properties(&self) -> &Properties;
}
