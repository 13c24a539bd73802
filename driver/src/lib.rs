//! The seam between the runtime and hardware: one trait, [`Driver`], of raw operations over plain
//! handles.
//!
//! The typed API above it proves order by types and calls this trait; nothing here knows of stream
//! tags, handoffs or elements. What the trait lists is the whole of what the runtime asks of a GPU,
//! so a backend is written by implementing it, and validated by passing `tests/conformance`.
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
mod work;

pub use arguments::OwnedArguments;
pub use collective::{Collective, Communicator, Number, Part, Reduction};
pub use driver::Driver;
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
pub use work::{Engine, Kind};
