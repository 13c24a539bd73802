//! What ran when: spans of copies, kernels, waits and host stages, figures of how well they overlapped, and pictures.
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
//! | simulated | the model ([`Model`](crate::driver::sim::Model)) | none; they are no measurement, and everything printed says so |
//! | CUDA, with the feature `cupti` and where `libcupti` of CUDA 11.8 to 12.9 or 13.0 to 13.5 can be had | CUPTI's activity records | the engines' own times |
//! | CUDA | timing events that the recording puts around each operation | see below |
//!
//! An event is stamped when its stream reaches it. So a span also holds the time for which an operation waited for its engine
//! behind another *stream's* work, which its own stream can't tell from running: where several streams share one engine, busy
//! times are those of the union of their spans, never more than the wall time, and may be too long. With one stream to an
//! engine, as in a pipeline, they are the engine's own.
//!
//! # What is recorded
//!
//! What goes through the typed API of the one device, on any thread; CUPTI also sees what others give the same context. By events a
//! graph is one span. Allocation, freeing and events take no engine and have no spans. Recording adds events, never a wait: order
//! stays as it was, and an event that can't be had is counted ([`Timeline::missing`]), not an error of the user's work. A stage
//! of the host that has not ended when the recording does is left out.
//!
//! While nothing is recorded a call pays for one relaxed load. `cargo bench -p cuda-rt --bench timeline` says what recording costs.
#![forbid(unsafe_code)]

pub mod bench;
mod events;
mod figures;
mod gantt;
mod gaps;
mod json;
mod lanes;
mod recorder;
mod recording;
mod scope;
mod svg;
mod text;
mod trace;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

pub use crate::driver::sim::Engine;
pub use figures::{EngineFigures, Figures, RowFigures};
pub use gantt::Gantt;
pub use gaps::{Cause, Gap};
pub(crate) use recorder::{Operation, Recorder, around};
pub use recording::Recording;
pub use scope::{Scope, scope};

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A copy from host to device.
    CopyToDevice,
    /// A copy from device to host.
    CopyToHost,
    /// A copy within the device.
    Copy,
    /// A copy between two devices, or a collective.
    CopyPeer,
    /// A fill.
    Fill,
    /// A kernel.
    Kernel,
    /// A graph that was launched as a whole.
    Graph,
    /// A stream held back by an event of another stream.
    Wait,
    /// Work of a host thread, as a [`scope`] named it.
    Stage,
    /// A host thread blocked until work of the device was done.
    HostWait,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::CopyToDevice,
        Self::CopyToHost,
        Self::Copy,
        Self::CopyPeer,
        Self::Fill,
        Self::Kernel,
        Self::Graph,
        Self::Wait,
        Self::Stage,
        Self::HostWait,
    ];

    /// The engine that it occupies, if it is the device's work.
    pub fn engine(self) -> Option<Engine> {
        match self {
            Self::CopyToDevice => Some(Engine::ToDevice),
            Self::CopyToHost => Some(Engine::ToHost),
            Self::CopyPeer => Some(Engine::Peer),
            Self::Copy | Self::Fill | Self::Kernel | Self::Graph => Some(Engine::Compute),
            Self::Wait | Self::Stage | Self::HostWait => None,
        }
    }

    /// Whether whoever does it only waits.
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Wait | Self::HostWait)
    }

    /// Its name in legends and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::CopyToDevice => "copy to device",
            Self::CopyToHost => "copy to host",
            Self::Copy => "copy",
            Self::CopyPeer => "copy to peer",
            Self::Fill => "fill",
            Self::Kernel => "kernel",
            Self::Graph => "graph",
            Self::Wait => "wait",
            Self::Stage => "host stage",
            Self::HostWait => "host waits",
        }
    }
}

/// Where spans lie side by side: a stream or a host thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The stream's tag, or the thread's name.
    pub name: String,
    /// Whether it is a thread of the host.
    pub is_host: bool,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it is.
    pub kind: Kind,
    /// The kernel's path, the scope's name, or what kind of operation it is.
    pub label: Cow<'static, str>,
    /// Index of its row.
    pub row: usize,
    /// Start, in ns.
    pub start_ns: u64,
    /// End, in ns.
    pub end_ns: u64,
    /// Bytes copied, filled or, on the simulated device, touched by the kernel; 0 where that is not known.
    pub bytes: u64,
    /// The row of what a wait waits for.
    pub waits_for: Option<usize>,
}

impl Span {
    /// How long it took, in ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// The last part of the label's path: what fits into a picture.
    pub fn short_label(&self) -> &str {
        self.label.rsplit("::").next().unwrap_or(&self.label)
    }
}

/// Where the times of the device's work come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The simulated device's model: nothing was measured.
    Model,
    /// Timing events around each operation.
    Events,
    /// CUPTI's activity records: the engines' own times.
    Cupti,
}

impl Source {
    /// A sentence for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Model => "times are MODELLED, not measured",
            Self::Events => "times measured by events around each operation",
            Self::Cupti => "times measured by CUPTI",
        }
    }

    /// How far apart two times may be that belong to one moment, in ns.
    fn tolerance_ns(self) -> u64 {
        match self {
            Self::Model => 0,
            // What lies between an event and the start of the work that waits for it, seen on current GPUs.
            Self::Events | Self::Cupti => 10_000,
        }
    }
}

/// Spans on rows: what [`Recording::finish`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    device: String,
    source: Source,
    rows: Vec<Row>,
    /// By row, then start; of two that start together the longer one first.
    spans: Vec<Span>,
    missing: u64,
}

impl Timeline {
    /// A timeline of spans from elsewhere.
    ///
    /// # Panics
    /// If a span ends before it starts, or names a row that is not there.
    pub fn new(device: impl Into<String>, source: Source, rows: Vec<Row>, mut spans: Vec<Span>) -> Self {
        for span in &spans {
            assert!(span.start_ns <= span.end_ns, "{span:?} ends before it starts");
            assert!(
                span.row < rows.len() && span.waits_for.is_none_or(|row| row < rows.len()),
                "{span:?} names a row that is not there"
            );
        }
        spans.sort_by_key(|span| (span.row, span.start_ns, Reverse(span.end_ns)));
        Self {
            device: device.into(),
            source,
            rows,
            spans,
            missing: 0,
        }
    }

    /// Name of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Where the times come from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The rows: streams first, host threads after them.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// All spans, by row and then by start.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The spans of one row, by start.
    pub fn row_spans(&self, row: usize) -> &[Span] {
        &self.spans[self.row_range(row)]
    }

    fn row_range(&self, row: usize) -> Range<usize> {
        let from = self.spans.partition_point(|span| span.row < row);
        from..self.spans.partition_point(|span| span.row <= row)
    }

    /// Operations that ran but have no span, for want of an event to time them.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// From the first start to the last end of anything, in ns.
    pub fn extent_ns(&self) -> Range<u64> {
        let start = self.spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
        start..self.spans.iter().map(|span| span.end_ns).max().unwrap_or(start)
    }

    /// What lies in a window of time, in ns; spans that reach out of it are cut. To look at the steady state of a pipeline,
    /// without its filling and draining, say.
    pub fn window(&self, window: Range<u64>) -> Self {
        let cut = |span: &Span| Span {
            start_ns: span.start_ns.max(window.start),
            end_ns: span.end_ns.min(window.end),
            ..span.clone()
        };
        let inside = |span: &&Span| span.start_ns < window.end && span.end_ns > window.start;
        Self {
            spans: self.spans.iter().filter(inside).map(cut).collect(),
            ..self.clone()
        }
    }

    /// From the first start to the last end of the work of one engine, in ns; `None` if it had none. With the engine that bounds a
    /// pipeline: its steady state.
    pub fn active_ns(&self, engine: Engine) -> Option<Range<u64>> {
        let of = || {
            self.spans
                .iter()
                .filter(|span| span.kind.engine() == Some(engine))
        };
        let start = of().map(|span| span.start_ns).min()?;
        Some(start..of().map(|span| span.end_ns).max()?)
    }
}

/// Length of the union of intervals, in ns.
fn union_ns(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut total, mut reached) = (0, 0);
    for (start, end) in intervals {
        total += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    total
}

#[cfg(test)]
mod tests;
