//! [`Driver`]: everything that the runtime asks of a GPU, in groups of calls.

mod calls;
mod copies;
mod events;
mod graphs;
mod kernels;
mod managed;
mod memory;
mod peers;
mod streams;

use std::fmt;

pub use copies::Copies;
pub use events::Events;
pub use graphs::Graphs;
pub use kernels::Kernels;
pub use managed::Managed;
pub use memory::Memory;
pub use peers::Peers;
pub use streams::Streams;

use crate::Properties;

/// Raw operations of one device: its context, streams, events, memory and kernels.
///
/// The calls are in groups, and each group is a trait. `Driver` is the union of the groups, and
/// makes the promise for all of them: a type that implements only the groups promises nothing.
///
/// An instance drives one context and keeps it alive. Every method may be called from any thread. A
/// method whose call needs the current context makes its own context current first, because other
/// libraries in the process change it.
///
/// **Order.** An operation that takes a stream is enqueued on the stream and returns at once,
/// unless its documentation says that it blocks. The device runs the operations of one stream in
/// order. It runs operations of different streams in any order that events allow. Streams are
/// non-blocking with respect to the default stream, and the default stream is never used.
///
/// Calls of several threads on one stream take effect one after another, as if each call held a
/// lock of the stream: an earlier effect happens before what its thread and others do behind a
/// later one. The runtime leaves out records and waits by this order.
///
/// **Errors.** An operation that returns an error has enqueued nothing, allocated nothing and freed
/// nothing. A *sticky* error ([`DriverError::is_sticky`](crate::DriverError::is_sticky)) means that
/// the context is lost: every later call fails too, and no pending work can be assumed to have
/// finished.
///
/// **Unwinding.** No method unwinds, here or in [`Communicator`](crate::Communicator): a panic
/// inside an implementation becomes a sticky error. Only [`foreign`](Streams::foreign) and
/// [`while_mapped`](Managed::while_mapped) pass on a panic of their `body`. The typed API stays
/// sound even with an implementation that unwinds (`unless.rs`): it leaks what the GPU may still
/// use, and refuses work that it can no longer order.
///
/// # Safety
///
/// An implementation must provide the order stated above, must give out only memory that nothing
/// else uses, and must report a wait as finished only when it is. It must not unwind.
pub unsafe trait Driver:
    Streams + Events + Memory + Managed + Copies + Peers + Kernels + Graphs + Send + Sync + fmt::Debug
{
    /// The fixed properties of the device. Makes no driver call.
    fn properties(&self) -> &Properties;
}
