//! The interface between the runtime and hardware: one trait, [`Driver`], of raw operations over
//! plain handles. The trait is the union of a few groups of calls, for example [`Streams`] and
//! [`Copies`].
//!
//! The typed API above this crate proves order by types, and calls the trait. Nothing here knows
//! stream tags, handoffs or elements. The trait lists everything that the runtime asks of a GPU. A
//! new backend implements the trait, and passes `tests/conformance`. Tools that only observe, for
//! example a checker, implement [`Tools`]; a device holds them beside its driver.
//!
//! Two backends repeat the same file names, so that they read side by side:
//!
//! | | `cuda` | `sim` |
//! |---|---|---|
//! | memory | the GPU's | real bytes of the host, whose addresses serve as device addresses |
//! | order | the hardware's | any that CUDA's rules allow, chosen by a seed |
//! | time | measured | modelled |
//! | errors | the driver's | injected on demand |
//!
//! A third backend, `cust` (feature `cust`), is the `cuda` backend built on objects of the crate
//! `cust`, for programs that already have these objects.
//!
//! # Drivers that wrap others
//!
//! A wrapper names each call, and writes no signature: the signatures come from the list that also
//! makes the group's trait. A call that a wrapper does not name is missing from its `impl`, which
//! then does not compile. The types in the signatures must be in scope where the macro is called.
//!
//! ```
//! use std::ffi::{CStr, c_void};
//! use std::sync::Arc;
//!
//! use cuda_rt_driver::{Driver, DriverError, DriverResult};
//! use cuda_rt_driver::{ForeignUse, HostFunction, RawEvent, RawStream};
//! use cuda_rt_driver::{Events, Kernels, Streams};
//! use cuda_rt_driver::{FunctionLaunch, RawFunction, RawModule};
//! use cuda_rt_driver::{Kernel, KernelAttributes, LaunchShape, SuggestedBlock};
//!
//! struct Counting(Arc<dyn Driver>);
//!
//! impl Counting {
//!     fn counted<R>(&self, call: &str, make: impl FnOnce() -> R) -> R {
//!         println!("{call}");
//!         make()
//!     }
//! }
//!
//! // 1. Passed on as they are.
//! impl Streams for Counting {
//!     cuda_rt_driver::stream_calls! { forward to |this: &Counting| -> &dyn Driver { &*this.0 };
//!         create_stream, destroy_stream, synchronize_stream, query_stream, wait_event,
//!         launch_host_function, lose, foreign,
//!     }
//! }
//!
//! // 2. With a body of the driver's own, in which `call` makes the call on a driver.
//! impl Kernels for Counting {
//!     cuda_rt_driver::kernel_calls! { forward to |this: &Counting| -> &dyn Driver { &*this.0 };
//!         prepare, kernel_attributes, max_active_blocks, suggest_block, launch_padded,
//!         load_module, unload_module, module_function, launch_function,
//!     }
//!     cuda_rt_driver::kernel_calls! { |this: &Counting, call(&dyn Driver)|
//!         launch(kernel, shape, _parameters, stream) => {
//!             println!("{} on {stream:?} as {shape:?}", kernel.name);
//!             call(&*this.0)
//!         };
//!     }
//! }
//!
//! // 3. All of a group in one way.
//! impl Events for Counting {
//!     cuda_rt_driver::event_calls! { each |this: &Counting, name, call(&dyn Driver)|
//!         this.counted(name, || call(&*this.0))
//!     }
//! }
//! ```
//!
//! # Who validates what
//!
//! Callers (the typed API) prove three things: handles are live, ranges lie inside one allocation,
//! and conflicting accesses are ordered. Backends check nothing that CUDA does not check. But a
//! backend must never turn an error into undefined behaviour, and a call that fails must leave
//! nothing enqueued.

mod arguments;
#[doc(hidden)]
pub mod call_lock;
mod called_at;
mod collective;
mod driver;
mod error;
mod function;
mod hardware_trace;
mod hints;
#[doc(hidden)]
pub mod host_function;
mod host_memory;
mod image;
mod kernel;
mod managed;
mod occupancy;
mod pitched;
#[doc(hidden)]
pub mod process;
mod properties;
mod race;
mod raw;
mod simulated;
mod tools;
mod work;

pub use arguments::OwnedArguments;
pub use called_at::CalledAt;
pub use collective::{Collective, Communicator, Number, Part, Reduction};
pub use driver::{Copies, Driver, Events, Graphs, Kernels, Managed, Memory, Peers, Streams};
pub use error::{DriverError, ErrorCode};
pub use function::{FunctionLaunch, StandIn};
pub use hardware_trace::{Trace, Traced};
pub use hints::{CallSite, ForeignUse, Hint, LeftOut};
pub use host_function::HostFunction;
pub use host_memory::HostMemory;
pub use image::ModuleImage;
pub use kernel::{Kernel, KernelCache, LaunchShape, Parameter, ParameterKind};
pub use managed::{Advice, Location};
pub use occupancy::{KernelAttributes, SuggestedBlock};
pub use pitched::{CopyExtent, Pitch};
pub use properties::{Backend, MemoryInfo, MemoryPoolStats, PeerAccess, Properties};
pub use race::{AccessKind, ActorKind, Operation, Party, Race, Site};
pub use raw::{
    DeviceAddress, DriverResult, RawEvent, RawFunction, RawGraph, RawModule, RawNode, RawPeer, RawStream,
};
pub use simulated::Simulated;
pub use tools::{DriverWithTools, Tools};
pub use work::{Engine, Kind};

/// Names for the code that the macros write.
#[doc(hidden)]
pub mod __private {
    pub use core;
}
