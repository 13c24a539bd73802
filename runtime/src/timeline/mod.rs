//! Timelines: spans of copies, kernels, waits and host stages, with figures of their overlap and
//! pictures.
//!
//! ```
//! use cuda_rt::{Device, timeline};
//!
//! cuda_rt::streams! { pub Compute; }
//!
//! let gpu = Device::open_or_simulate()?;
//! let compute = gpu.stream::<Compute>()?;
//!
//! let recording = gpu.record_timeline()?;
//! let mut frame = compute.alloc_zeroed::<f32>(1 << 20)?;
//! {
//!     let _stage = timeline::scope("prepare");
//!     compute.fill(&mut frame, 1.0)?;
//! }
//! let timeline = recording.finish()?;
//! println!("{}{}", timeline.gantt(80), timeline.figures());
//! # Ok::<(), cuda_rt::Error>(())
//! ```
//!
//! # Where times come from
//!
//! - **simulated**: the model ([`Model`](cuda_rt_simulator::Model)). The times are modelled,
//!   not measured, and all output says so.
//! - **CUDA, with the feature `cupti` and an installed `libcupti` of CUDA 11.8 to 12.9 or 13.0 to
//!   13.5**: CUPTI's activity records. They are the engines' own times.
//! - **CUDA**: timing events that the recording puts around each operation. Their error is
//!   described below.
//!
//! An event takes its time when its stream reaches it. An operation may wait for its engine while
//! the engine runs work of another *stream*; the span includes that wait. So if several streams
//! share one engine, busy times may be too long. They are the times of the union of the spans, so
//! they never exceed the wall time. With one stream to an engine, as in a pipeline, they are the
//! engine's own times.
//!
//! # Recorded work
//!
//! A recording holds the work of one device that goes through the typed API, on any thread. CUPTI
//! also sees work that other libraries give to the same context. With events a graph is one span.
//! Allocations, frees and events occupy no engine and have no spans. A recording adds events, but
//! no waits, so the order does not change. If an event cannot be created, the recording counts that
//! ([`Timeline::missing`]), and the user's work does not fail. A host stage that has not ended at
//! the end of the recording is left out.
//!
//! Without a recording each call costs one relaxed load.
//! `cargo bench -p cuda-handoff --bench timeline` measures the cost of a recording.
#![forbid(unsafe_code)]

pub mod bench;
mod events;
mod host_clock;
mod recording;
mod scope;
mod session;

pub use cuda_rt_driver::{Engine, Kind};
pub use cuda_rt_timeline::{
    Cause, EngineFigures, Figures, Gantt, Gap, Row, RowFigures, Source, Span, Timeline,
};
pub use recording::Recording;
pub use scope::{Scope, scope};
