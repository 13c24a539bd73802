//! What ran when: spans of copies, kernels, waits and host stages, figures of how well they
//! overlapped, and pictures.
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
//! | device | times of its work | error |
//! |---|---|---|
//! | simulated | the model ([`Model`](cuda_rt_simulator::Model)) | none; they are no measurement, and everything printed says so |
//! | CUDA, with the feature `cupti` and where `libcupti` of CUDA 11.8 to 12.9 or 13.0 to 13.5 can be had | CUPTI's activity records | the engines' own times |
//! | CUDA | timing events that the recording puts around each operation | see below |
//!
//! An event is stamped when its stream reaches it. So a span also holds the time for which an
//! operation waited for its engine behind another *stream's* work, which its own stream can't tell
//! from running: where several streams share one engine, busy times are those of the union of their
//! spans, never more than the wall time, and may be too long. With one stream to an engine, as in a
//! pipeline, they are the engine's own.
//!
//! # What is recorded
//!
//! What goes through the typed API of the one device, on any thread; CUPTI also sees what others
//! give the same context. By events a graph is one span. Allocation, freeing and events take no
//! engine and have no spans. Recording adds events, never a wait: order stays as it was, and an
//! event that can't be had is counted ([`Timeline::missing`]), not an error of the user's work. A
//! stage of the host that has not ended when the recording does is left out.
//!
//! While nothing is recorded a call pays for one relaxed load.
//! `cargo bench -p cuda-handoff --bench timeline` says what recording costs.
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
