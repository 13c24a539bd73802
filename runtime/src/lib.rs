//! The typed API of `cuda-handoff`: devices, streams, memory, order, kernels and graphs. Programs
//! depend on `cuda-handoff`, whose page says what the API promises.
//!
//! | folder | what |
//! |---|---|
//! | `tag` | the types that name streams and devices |
//! | `device` | devices, the state that their handles share, and the steps of every call |
//! | `stream` | streams: copies, fills, and moves of ownership |
//! | `order` | events, fences and handoffs: which work waits for which |
//! | `memory` | buffers, slices, bundles, and places to keep them |
//! | `kernel` | kernels and their launches |
//! | `graph` | captured work |
//! | `collective` | sums and exchanges among several GPUs |
//! | `interop` | memory, streams and kernels of other libraries |
//! | `timeline` | recordings of what ran when |
//! | `observability` | figures of a device, and events for subscribers of `tracing` |
//! | `error` | errors, one file a family |
//! | `checker` | the happens-before checker, re-exported |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "timeline"),
    allow(dead_code, reason = "recordings alone start observers")
)]

#[cfg(feature = "checker")]
pub mod checker;
mod collective;
mod device;
mod error;
mod graph;
pub mod interop;
pub mod kernel;
mod memory;
pub mod observability;
mod order;
mod stream;
mod tag;
#[cfg(feature = "timeline")]
pub mod timeline;

/// The interface between the runtime and hardware.
pub use cuda_rt_driver as driver;
/// The CUDA driver API, behind that interface.
#[cfg(feature = "cuda")]
pub use cuda_rt_driver_cuda as driver_cuda;
/// The simulated device.
#[cfg(feature = "simulator")]
pub use cuda_rt_simulator as simulator;

pub use crate::collective::{Communicator, Devices, InPlace, OutOfPlace, Rank, Reducible, RefusedBuffers};
pub use crate::device::{AnyDevice, Device, Opens};
pub use crate::error::{
    CollectiveError, CopySide, DlpackError, Error, GridError, LayoutError, OpenError, PinnedError, Refused,
    Result,
};
pub use crate::graph::{Captured, Graph, InGraph, KeptGraph};
pub use crate::kernel::{Grid1, Grid2, Grid3, KernelOutput};
pub use crate::memory::Constant;
pub use crate::memory::Kept;
pub use crate::memory::Loan;
pub use crate::memory::Metadata;
pub use crate::memory::Slot;
pub use crate::memory::{
    Bundle, ChunksExact, ChunksExactMut, DeviceBuffer, DeviceSlice, DeviceView, DeviceViewMut, Element,
    HostArguments, ManagedBuffer, OwnedBy, PeerBuffer, PinnedBuffer, PinnedSlice, PinnedStats, PinnedView,
    PinnedViewMut, RangeIndex, WriteCombinedBuffer, WriteCombinedView,
};
pub use crate::memory::{HostLease, Lease, Shared};
pub use crate::memory::{Layout2, Layout3};
pub use crate::order::completion::{DoneScope, done_scope};
pub use crate::order::event::Event;
pub use crate::order::future::HandoffFuture;
pub use crate::order::handoff::{Handoff, Query};
pub use crate::order::join::Handoffs;
pub use crate::order::timed_event::{FinishedEvent, TimedEvent};
pub use crate::stream::{AnyStream, Branded, IdleOnAny, KeptOf, Lasting};
pub use crate::stream::{MappedOutput, Stream};
pub use crate::stream::{Pooled, StreamPool};
pub use crate::tag::{
    DeviceTag, Gpu, HostPlace, Idle, IdlePlace, Live, NamedDevice, NamedStream, NoStream, OnHost, Place,
    Priority, ReadBy, SameAs, Scoped, StreamTag, WriteBy, WriteCombined,
};
pub use cuda_rt_driver::Reduction;

#[doc(hidden)]
pub mod __private {
    pub use crate::memory::{
        Attach, Back, Borrow, BorrowMut, Detach, Exact, PartByPart, PartByPartOf, Retire, ToHost, attach,
        by_ref, detach, has_parts, idle_from, note_host_access, retire, same_type, view,
    };
    pub use crate::order::fence::Fence;
    pub use crate::order::stream_ref::StreamRef;
    pub use crate::order::unless::Leaked;
    // The paths that macros write. In their output `::core` would name any crate that the user
    // calls `core` (H42).
    pub use ::core;
    pub use device_std;
}

pub use bytemuck;
#[cfg(feature = "macros")]
pub use cuda_rt_macros::{Bundle, HostElement as Element};
#[doc(inline)]
pub use device_std::hazards;
#[cfg(feature = "rustacuda")]
pub use device_std::{AnyBits, DeviceCopied};
