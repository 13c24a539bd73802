//! The seam between the runtime and hardware: one trait, [`Driver`], of raw operations over plain
//! handles. It is the union of a few groups of calls, such as [`Streams`] and [`Copies`].
//!
//! The typed API above it proves order by types and calls this trait; nothing here knows of stream
//! tags, handoffs or elements. What the trait lists is the whole of what the runtime asks of a GPU,
//! so a backend is written by implementing it, and validated by passing `tests/conformance`. What
//! only looks on, as a checker does, is in [`Tools`], which a device holds beside its driver.
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
//! A third one, `cust`, is the first made of the objects of the crate of that name, for programs
//! that have those; it is there with the feature `cust`.
//!
//! # Drivers that wrap others
//!
//! A wrapper names each call, and writes no signature: those come from the one list that the trait
//! of the group is made from too. A call that a wrapper does not name is missing from its `impl`,
//! which does not compile. The types of the signatures are those in scope at the macro.
//!
//! ```
//! use std::ffi::c_void;
//! use std::sync::Arc;
//!
//! use cuda_rt_driver::{Driver, DriverResult, ForeignUse, RawEvent, RawStream};
//! use cuda_rt_driver::{Events, Kernels, Streams};
//! use cuda_rt_driver::{Kernel, LaunchShape};
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
//!     cuda_rt_driver::stream_calls! { forward to |this| &*this.0;
//!         create_stream, destroy_stream, synchronize_stream, query_stream, wait_event, foreign,
//!     }
//! }
//!
//! // 2. With a body of the driver's own, in which `call` makes the call on a driver.
//! impl Kernels for Counting {
//!     cuda_rt_driver::kernel_calls! { forward to |this| &*this.0; prepare, launch_padded }
//!     cuda_rt_driver::kernel_calls! { |this, call|
//!         launch(kernel, shape, _parameters, stream) => {
//!             println!("{} on {stream:?} as {shape:?}", kernel.name);
//!             call(&*this.0)
//!         };
//!     }
//! }
//!
//! // 3. All of a group in one way.
//! impl Events for Counting {
//!     cuda_rt_driver::event_calls! { each |this, name, call|
//!         this.counted(name, || call(&*this.0))
//!     }
//! }
//! ```
//!
//! # Who validates what
//!
//! Callers (the typed API) prove that handles are live, ranges lie inside one allocation and that
//! conflicting accesses are ordered. Backends check nothing that CUDA does not check, but must
//! never turn an error into undefined behaviour, and must leave nothing enqueued by a call that
//! failed.

mod arguments;
mod collective;
#[doc(hidden)]
pub mod door;
mod driver;
mod error;
mod hardware_trace;
mod hints;
mod host_memory;
mod image;
mod kernel;
mod properties;
mod race;
mod raw;
mod simulated;
mod tools;
mod work;

pub use arguments::OwnedArguments;
pub use collective::{Collective, Communicator, Number, Part, Reduction};
pub use driver::{Copies, Driver, Events, Graphs, Kernels, Memory, Peers, Streams};
pub use error::{DriverError, ErrorCode};
pub use hardware_trace::{Trace, Traced};
pub use hints::{CallSite, ForeignUse, Hint};
pub use host_memory::HostMemory;
pub use image::ModuleImage;
pub use kernel::{Kernel, KernelCache, LaunchShape, Parameter, ParameterKind};
pub use properties::{Backend, MemoryInfo, MemoryPoolStats, PeerAccess, Properties};
pub use race::{AccessKind, ActorKind, Operation, Party, Race, Site};
pub use raw::{DeviceAddress, DriverResult, RawEvent, RawGraph, RawNode, RawPeer, RawStream};
pub use simulated::Simulated;
pub use tools::{DriverWithTools, Tools};
pub use work::{Engine, Kind};
