//! A CUDA runtime in which data races between streams, and between a stream and the host, do not
//! compile.
//!
//! # What it promises
//!
//! Safe code that compiles has no data race between streams, between a stream and the host, or
//! between two GPUs, whatever is dropped, leaked with `mem::forget`, sent to a thread or panics.
//! Types prove the order: nothing is tracked at run time, an event is recorded only when a buffer
//! changes its owner, and the host waits only where the program says so.
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
//! - A buffer's type names its owner: a stream tag, or [`Idle`]. A move to another owner consumes a
//!   [`Handoff`].
//! - One tag is one CUDA stream ([`streams!`]), so equal types prove equal streams, and nothing is
//!   checked at run time.
//! - Destructors keep memory from being freed early. Safety does not depend on a destructor
//!   running.
//! - Hardware is behind one trait, [`driver::Driver`]: CUDA, or a simulated device that runs
//!   programs without a GPU, in an order as hostile as CUDA allows.
//!
//! # Who validates what
//!
//! rustc proves order and ownership. This crate checks properties that types cannot express, like
//! lengths and grids, before it enqueues anything. If CUDA refuses a call, that call returns an
//! [`Error`]; the backends behind [`driver`] check nothing that CUDA does not check.
//!
//! # Contents
//!
//! - **devices and streams**: [`Device`], [`Stream`], [`streams!`], [`devices!`], [`StreamPool`]
//! - **devices and streams that are known at run time, and held in structs**: [`AnyDevice`],
//!   [`AnyStream`], [`Kept`] bundles, [`KeptGraph`]
//! - **memory**: [`DeviceBuffer`], [`PinnedBuffer`], their slices [`DeviceSlice`] and
//!   [`PinnedSlice`], parts by [`split_off`](DeviceBuffer::split_off) and
//!   [`split_into`](DeviceBuffer::split_into), other elements by [`cast`](DeviceBuffer::cast)
//! - **order**: [`Handoff`], by [`release`](Stream::release) and [`acquire`](Stream::acquire);
//!   bundles ([`Bundle`]: structs and enums of buffers, with [`Metadata`]), several at once
//!   ([`Stream::acquire_all`]), [`Event`]
//! - **many readers, places to keep a bundle**: [`Shared`] with [`Lease`] and [`HostLease`],
//!   [`Constant`], [`Slot`]
//! - **waiting on the host**: [`Handoff::synchronize`], [`Handoff::is_done`],
//!   [`Device::synchronize`], `.await` ([`HandoffFuture`]), [`Handoff::on_done`],
//!   [`done_scope`]
//! - **copies in stream order**: [`copy_to_device`](Stream::copy_to_device),
//!   [`copy_to_host`](Stream::copy_to_host), [`copy`](Stream::copy), [`fill`](Stream::fill); 2-D
//!   and 3-D: [`copy_rows`](Stream::copy_rows) with [`Layout2`] and [`Layout3`]
//! - **copies from and to ordinary memory, which block**:
//!   [`alloc_from_slice`](Stream::alloc_from_slice), [`copy_to_vec`](Stream::copy_to_vec); into
//!   memory that exists, [`copy_from_slice`](Stream::copy_from_slice),
//!   [`copy_to_slice`](Stream::copy_to_slice)
//! - **memory that nothing wrote yet**: [`alloc_uninit`](Stream::alloc_uninit), written by a kernel
//!   that returns its element ([`KernelOutput`]) or by `init_…`;
//!   [`pinned_uninit`](Device::pinned_uninit)
//! - **memory for uploads alone**, which the processor does not cache: [`WriteCombinedBuffer`]
//! - **memory that kernels reach elsewhere**: pinned memory, by [`mapped`](Stream::mapped) and
//!   [`mapped_mut`](Stream::mapped_mut); [`ManagedBuffer`], with [`prefetch`](Stream::prefetch) and
//!   [`advise`](ManagedBuffer::advise); [`PeerBuffer`], of another GPU, by
//!   [`acquire_peer`](Stream::acquire_peer)
//! - **work of the host in stream order**: [`Stream::host_fn`]
//! - **graphs**: [`Stream::capture`], [`Graph`], changed by [`update`](Graph::update) and
//!   [`replace`](Graph::replace)
//! - **several GPUs**: [`Device::count`], [`copy_from_peer`](Stream::copy_from_peer),
//!   [`copy_to_peer`](Stream::copy_to_peer), [`Communicator`]
//! - **kernels**: `#[kernel]` of `device_std`, called with [`Grid1`], [`Grid2`], [`Grid3`];
//!   occupancy ([`Device::suggested_block`]); kernels that are shipped: the package
//!   `cuda-handoff-kernels`
//! - **kernels in CUDA C++, PTX and cubins**: [`foreign_kernel!`] declares them,
//!   [`interop::ForeignModule`] loads them, and `interop::Nvrtc` (with the feature `cuda`) compiles
//!   CUDA C++ at run time; [`kernel`] describes kernels of other compilers by hand
//! - **whole programs**: [`pipeline`], [`timeline`], [`TimedEvent`], [`checker`]; figures and
//!   events of programs that run for long: [`observability`], [`Device::metrics`]
//! - **other libraries**: [`interop`]; cuBLAS and cuFFT: the packages `cuda-handoff-cublas` and
//!   `cuda-handoff-cufft`; Python modules: the package `cuda-handoff-python`
//! - **what would go wrong without these types**, by the numbers in the documentation: [`hazards`]
//!
//! # Several GPUs
//!
//! Devices have types too ([`Gpu`], [`devices!`], [`Scoped`]), so memory of one device is no
//! argument for another. [`Stream::copy_from_peer`] and [`Stream::copy_to_peer`] copy memory
//! between devices, and the collectives of a [`Communicator`] combine it. [`Stream::acquire_peer`]
//! lends memory of one device to kernels of another.
//!
//! # Features
//!
//! - `cuda` (default): the CUDA driver, loaded at run time; without it there are only simulated
//!   devices
//! - `macros` (default): the derives of [`Bundle`] and [`Element`], with those of `bytemuck` that
//!   elements need
//! - `simulator` (default): simulated devices; includes `checker`
//! - `checker` (default): the module `checker`, which `CUDA_RT_CHECK=1` puts over a GPU; without it
//!   that variable is an error
//! - `timeline` (default): the module `timeline`: recordings; includes `simulator`, whose times it
//!   also shows
//! - `pipeline` (default): the module `pipeline`; includes `timeline`
//! - `nccl`: collectives on GPUs, through NCCL 2.16.5 or later, loaded at run time; without it they
//!   run on simulated devices only
//! - `half`: `half::f16` and `half::bf16` as elements and in kernels
//! - `cupti`: times of kernels and copies from CUPTI, if it can be loaded; otherwise from timing
//!   events
//! - `rustacuda`: types that derive `DeviceCopy` of `rustacuda_derive`, as elements and kernel
//!   parameters, if that is sound
//! - `cust`: objects of the crate `cust` 0.3.2 become objects of this crate, and the reverse; links
//!   libcuda
//! - `tracing`: subscribers of the crate `tracing` are told of devices, streams, pools, errors and
//!   slow waits ([`observability`])
//! - `nvtx`: stages named by [`timeline::scope`] are NVTX ranges too; the build needs a C compiler
//!   and libclang
//!
//! A program that needs none of the tools asks for `default-features = false, features =
//! ["cuda"]`: 11 packages instead of 21. Crates of kernels depend on `cuda-handoff-device`, which
//! has the feature `macros` by default.
//!
//! # What is not caught
//!
//! - Races *inside* a kernel that is written with `unsafe`.
//! - Deadlocks between kernels that wait for each other.
//! - Work that other libraries enqueue without telling this crate.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "pipeline")]
#[doc(inline)]
pub use cuda_rt_pipeline as pipeline;
#[cfg(feature = "checker")]
pub use cuda_rt_runtime::checker;
#[cfg(feature = "cuda")]
pub use cuda_rt_runtime::driver_cuda;
#[doc(inline)]
pub use cuda_rt_runtime::hazards;
#[cfg(feature = "simulator")]
pub use cuda_rt_runtime::simulator;
#[cfg(feature = "timeline")]
pub use cuda_rt_runtime::timeline;
#[doc(hidden)]
pub use cuda_rt_runtime::{
    __block, __bundle, __foreign_kernel, __kernel, __module, __parameters, __priority, __private,
};
#[cfg(feature = "rustacuda")]
pub use cuda_rt_runtime::{AnyBits, DeviceCopied};
pub use cuda_rt_runtime::{
    AnyDevice, AnyStream, Branded, Bundle, Captured, ChunksExact, ChunksExactMut, CollectiveError,
    Communicator, Constant, CopySide, Device, DeviceBuffer, DeviceSlice, DeviceTag, DeviceView,
    DeviceViewMut, Devices, DlpackError, DoneScope, Element, Error, Event, FinishedEvent, Gpu, Graph, Grid1,
    Grid2, Grid3, GridError, Handoff, HandoffFuture, Handoffs, HostArguments, HostLease, HostPlace, Idle,
    IdleOnAny, IdlePlace, InGraph, InPlace, Kept, KeptGraph, KeptOf, KernelOutput, Lasting, Layout2, Layout3,
    LayoutError, Lease, Live, Loan, ManagedBuffer, MappedOutput, Metadata, NamedDevice, NamedStream,
    NoStream, OnHost, OpenError, Opens, OutOfPlace, OwnedBy, PeerBuffer, PinnedBuffer, PinnedError,
    PinnedSlice, PinnedStats, PinnedView, PinnedViewMut, Place, Pooled, Priority, Query, RangeIndex, Rank,
    ReadBy, Reducible, Reduction, Refused, RefusedBuffers, Result, SameAs, Scoped, Shared, Slot, Stream,
    StreamPool, StreamTag, TimedEvent, WriteBy, WriteCombined, WriteCombinedBuffer, WriteCombinedView,
    done_scope,
};
pub use cuda_rt_runtime::{bytemuck, driver, interop, kernel, observability};
pub use cuda_rt_runtime::{devices, foreign_kernel, streams};

/// The doctests of the README: its example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
