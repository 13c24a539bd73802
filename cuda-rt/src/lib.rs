//! A CUDA runtime in which data races between streams, and between a stream and the host, do not
//! compile.
//!
//! # What it promises
//!
//! Safe code that compiles has no data race between streams, between a stream and the host, or
//! between two GPUs, whatever is dropped, leaked with `mem::forget`, sent to a thread or panics.
//! Order is proved by types: no tracking happens at run time, an event is recorded only where a
//! buffer changes hands, and the host waits only where the program says so.
//!
//! ```
//! use cuda_rt::Device;
//!
//! cuda_rt::streams! {
//!     /// Fills and computes.
//!     pub Compute, priority = High;
//!     /// Copies results back.
//!     pub Download;
//! }
//!
//! # fn main() -> Result<(), cuda_rt::Error> {
//! let gpu = Device::open_or_simulate()?;
//! let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
//!
//! let mut frame = compute.alloc_zeroed::<f32>(1024)?;     // DeviceBuffer<f32, Compute>
//! compute.fill(&mut frame, 1.5)?;
//!
//! let frame = download.acquire(compute.release(frame)?)?; // an event, and a wait on the GPU
//! let mut host = download.adopt(gpu.pinned::<f32>(1024)?)?; // the CPU can't touch it now
//! download.copy_to_host(&frame, &mut host)?;
//! let (frame, host) = download.release((frame, host))?.synchronize()?;
//! assert_eq!(host[0], 1.5);                               // idle: a slice of the CPU's
//! # Ok(())
//! # }
//! ```
//!
//! # Design choices
//!
//! - A buffer's type says who owns it: a stream tag, or [`Idle`]. Moving it consumes a [`Handoff`].
//! - One tag is one CUDA stream ([`streams!`]), so equal types prove equal streams, and nothing is
//!   checked at run time.
//! - Destructors keep memory from being freed early; no safety rests on one running.
//! - Hardware is behind one trait, [`driver::Driver`]: CUDA, or a simulated device that runs
//!   everything where there is no GPU, in an order as hostile as CUDA allows.
//!
//! # Who validates what
//!
//! rustc proves order and ownership. What types can't know, such as lengths and grids, is checked
//! before anything is enqueued. What CUDA refuses is an [`Error`] of the call that asked for it;
//! the backends behind [`driver`] check nothing that CUDA does not.
//!
//! # What is here
//!
//! | | |
//! |---|---|
//! | devices and streams | [`Device`], [`Stream`], [`streams!`], [`devices!`], [`StreamPool`] |
//! | memory | [`DeviceBuffer`], [`PinnedBuffer`], their slices [`DeviceSlice`] and [`PinnedSlice`], parts by [`split_off`](DeviceBuffer::split_off) |
//! | order | [`Handoff`], by [`release`](Stream::release) and [`acquire`](Stream::acquire); bundles ([`Bundle`]), several at once ([`Stream::acquire_all`]), [`Event`] |
//! | many readers, places to keep | [`Shared`] and [`Lease`], [`Constant`], [`Slot`] |
//! | waiting on the host | [`Handoff::synchronize`], `.await` ([`HandoffFuture`]), [`Handoff::on_done`] |
//! | copies in stream order | [`copy_to_device`](Stream::copy_to_device), [`copy_to_host`](Stream::copy_to_host), [`copy`](Stream::copy), [`fill`](Stream::fill) |
//! | copies from and to ordinary memory, which block | [`copy_from_slice`](Stream::copy_from_slice), [`copy_to_slice`](Stream::copy_to_slice) |
//! | graphs | [`Stream::capture`], [`Graph`], changed by [`update`](Graph::update) and [`replace`](Graph::replace) |
//! | several GPUs | [`copy_from_peer`](Stream::copy_from_peer), [`copy_to_peer`](Stream::copy_to_peer), [`Communicator`] |
//! | kernels | `#[kernel]` of `device_std`, called with [`Grid1`], [`Grid2`], [`Grid3`]; [`kernel`] for those of other compilers |
//! | whole programs | [`pipeline`], [`timeline`], [`TimedEvent`], [`checker`] |
//! | other libraries | [`interop`] |
//!
//! # Several GPUs
//!
//! Devices have types too ([`Gpu`], [`devices!`], [`Scoped`]), so that memory of one is no argument
//! of another. It is copied by [`Stream::copy_from_peer`] and [`Stream::copy_to_peer`], and
//! combined by the collectives of a [`Communicator`].
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `cuda` | yes | the CUDA driver, loaded at run time; without it there is only the simulated device |
//! | `pipeline` | yes | the module `pipeline`; without it there is a package less to build |
//! | `nccl` | no | collectives on GPUs, through NCCL 2.13 or later, loaded at run time; without it they run on simulated devices only |
//! | `half` | no | `half::f16` and `half::bf16` as elements and in kernels |
//! | `cupti` | no | times of kernels and copies from CUPTI, where it can be loaded; else from timing events |
//! | `rustacuda` | no | types that derive `DeviceCopy` by `rustacuda_derive`, as elements and kernel parameters, where that is sound |
//! | `cust` | no | objects of the crate `cust` 0.3.2 become ours, and ours are lent to it; links libcuda |
//! | `nvtx` | no | stages named by [`timeline::scope`] are NVTX ranges too; building needs a C compiler and libclang |
//!
//! # What is not caught
//!
//! Races *inside* a kernel that is written with `unsafe`; deadlocks between kernels that wait for
//! each other; work that other libraries enqueue behind this one's back.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "pipeline")]
#[doc(inline)]
pub use cuda_rt_pipeline as pipeline;
#[cfg(feature = "cuda")]
pub use cuda_rt_runtime::driver_cuda;
#[doc(hidden)]
pub use cuda_rt_runtime::{__block, __bundle, __kernel, __module, __parameters, __priority, __private};
#[cfg(feature = "rustacuda")]
pub use cuda_rt_runtime::{AnyBits, DeviceCopied};
pub use cuda_rt_runtime::{
    Bundle, Captured, ChunksExact, ChunksExactMut, CollectiveError, Communicator, Constant, Device,
    DeviceBuffer, DeviceSlice, DeviceTag, DeviceView, DeviceViewMut, Devices, Element, Error, Event,
    FinishedEvent, Gpu, Graph, Grid1, Grid2, Grid3, GridError, Handoff, HandoffFuture, Handoffs, Idle,
    InGraph, InPlace, Lease, Live, NamedDevice, NamedStream, OpenError, OutOfPlace, OwnedBy, PinnedBuffer,
    PinnedError, PinnedSlice, PinnedStats, PinnedView, PinnedViewMut, Place, Pooled, Priority, Query,
    RangeIndex, Rank, ReadBy, Reducible, Reduction, Refused, RefusedBuffers, Result, SameAs, Scoped, Shared,
    Slot, Stream, StreamPool, StreamTag, TimedEvent, WriteBy,
};
pub use cuda_rt_runtime::{bytemuck, checker, driver, interop, kernel, simulator, timeline};
pub use cuda_rt_runtime::{devices, streams};

/// The example of the package's page is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
