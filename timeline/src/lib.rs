//! Timelines: spans of copies, kernels, waits and host stages, in rows; figures of their overlap;
//! and pictures.
//!
//! A [`Timeline`] is plain data, which the recorder of the typed API makes. This crate needs no
//! device.
#![forbid(unsafe_code)]

mod figures;
mod gantt;
mod gaps;
mod json;
mod lanes;
mod perfetto;
mod svg;
mod text;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

pub use cuda_rt_driver::{Engine, Kind};
pub use figures::{EngineFigures, Figures, RowFigures};
pub use gantt::Gantt;
pub use gaps::{Cause, Gap};
pub use text::Ns;

/// A row of spans: a stream or a host thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The stream's tag, or the thread's name.
    pub name: String,
    /// Whether it is a thread of the host.
    pub is_host: bool,
}

/// An operation, wait or stage, with its start and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its kind.
    pub kind: Kind,
    /// The kernel's path, the scope's name, or the name of the operation's kind.
    pub label: Cow<'static, str>,
    /// Index of its row.
    pub row: usize,
    /// Start, in ns.
    pub start_ns: u64,
    /// End, in ns.
    pub end_ns: u64,
    /// Bytes copied, filled or, on the simulated device, touched by the kernel; 0 if unknown.
    pub bytes: u64,
    /// For a wait: the row of the stream that it waits for.
    pub waits_for: Option<usize>,
}

impl Span {
    /// Its length, in ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// The last part of the label's path, short enough for a picture.
    pub fn short_label(&self) -> &str {
        self.label.rsplit("::").next().unwrap_or(&self.label)
    }
}

/// The source of the times of the device's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The simulated device's model: nothing was measured.
    Model,
    /// Timing events around each operation.
    Events,
    /// CUPTI's activity records: the engines' own times.
    Cupti,
}

impl Source {
    /// A short sentence for readers.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Model => "times are MODELLED, not measured",
            Self::Events => "times measured by events around each operation",
            Self::Cupti => "times measured by CUPTI",
        }
    }

    /// The largest distance between two times that count as one moment, in ns.
    fn tolerance_ns(self) -> u64 {
        match self {
            Self::Model => 0,
            // The delay between an event and the start of the work that waits for it, as measured
            // on current GPUs.
            Self::Events | Self::Cupti => 10_000,
        }
    }
}

/// Spans in rows: the result of a recording.
///
/// The recorder of the typed API makes it. So can any other source of times:
///
/// ```
/// use cuda_rt_timeline::{Engine, Kind, Row, Source, Span, Timeline};
///
/// let row = |name: &str, is_host| Row { name: name.to_owned(), is_host };
/// let rows = vec![row("Upload", false), row("Compute", false), row("main", true)];
/// let span = |kind, row, start_ns, end_ns| Span {
///     kind,
///     label: kind.name().into(),
///     row,
///     start_ns,
///     end_ns,
///     bytes: 0,
///     waits_for: (kind == Kind::Wait).then_some(0),
/// };
/// let timeline = Timeline::new("a device", Source::Events, rows, vec![
///     span(Kind::CopyToDevice, 0, 0, 400_000),
///     span(Kind::CopyToDevice, 0, 400_000, 800_000),
///     span(Kind::Wait, 1, 0, 400_000),
///     span(Kind::Kernel, 1, 400_000, 700_000),
///     span(Kind::Wait, 1, 700_000, 800_000),
///     span(Kind::Kernel, 1, 800_000, 1_100_000),
///     span(Kind::Stage, 2, 0, 900_000),
/// ]);
/// assert_eq!((timeline.device(), timeline.source()), ("a device", Source::Events));
/// assert_eq!((timeline.rows().len(), timeline.spans().len()), (3, 7));
/// assert_eq!((timeline.extent_ns(), timeline.missing()), (0..1_100_000, 0));
/// assert_eq!(timeline.row_spans(1).len(), 4);
/// assert_eq!(timeline.totals(Kind::Kernel), [("kernel", 2, 600_000)]);
///
/// // A chart for a terminal, and files for a browser and for https://ui.perfetto.dev.
/// println!("{}", timeline.gantt(80));
/// let (mut svg, mut trace) = (Vec::new(), Vec::new());
/// timeline.write_svg(&mut svg)?;
/// timeline.write_trace(&mut trace)?;
/// assert!(svg.starts_with(b"<svg") && !trace.is_empty());
///
/// // Why a stream stood still.
/// let gaps = timeline.gaps();
/// assert_eq!(gaps[0].duration_ns(), 100_000);
/// println!("{}", timeline.explain(&gaps[0]));
///
/// // The steady state: without the first upload, in which nothing overlaps.
/// let steady = timeline.active_ns(Engine::Compute).expect("there are kernels");
/// assert_eq!(steady, 400_000..1_100_000);
/// assert_eq!(timeline.window(steady).figures().wall_ns, 700_000);
/// assert_eq!(timeline.with_missing(3).missing(), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    device: String,
    source: Source,
    rows: Vec<Row>,
    /// Sorted by row, then by start; of two spans with one start, the longer comes first.
    spans: Vec<Span>,
    missing: u64,
}

impl Timeline {
    /// Makes a timeline of the given rows and spans.
    ///
    /// # Panics
    /// If a span ends before it starts, or names a row that does not exist.
    pub fn new(device: impl Into<String>, source: Source, rows: Vec<Row>, mut spans: Vec<Span>) -> Self {
        for span in &spans {
            assert!(span.start_ns <= span.end_ns, "{span:?} ends before it starts");
            assert!(
                span.row < rows.len() && span.waits_for.is_none_or(|row| row < rows.len()),
                "{span:?} names a row that does not exist"
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

    /// Sets the number of operations that ran but have no span.
    #[must_use]
    pub fn with_missing(self, missing: u64) -> Self {
        Self { missing, ..self }
    }

    /// Name of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The source of the times.
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

    /// Number of operations that ran but have no span, because no event was left to time them.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The first start and the last end of all spans, in ns.
    pub fn extent_ns(&self) -> Range<u64> {
        let start = self.spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
        start..self.spans.iter().map(|span| span.end_ns).max().unwrap_or(start)
    }

    /// The part of the timeline in a window of time, in ns. Spans that reach out of the window are
    /// cut. Example: the steady state of a pipeline, without its filling and draining.
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

    /// The first start and the last end of one engine's work, in ns; `None` if the engine had no
    /// work. For the engine that bounds a pipeline, this is the steady state.
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

/// Length of the union of the intervals, in ns.
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
