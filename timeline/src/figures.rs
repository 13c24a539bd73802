//! Figures of a timeline: how well its work overlapped.

use std::fmt;

use super::{Source, Span, Timeline, union_ns};
use crate::Ns;
use cuda_rt_driver::{Engine, Kind};

/// Figures of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineFigures {
    /// The engine.
    pub engine: Engine,
    /// Time for which the engine had work, in ns.
    pub busy_ns: u64,
    /// Time from its first start to its last end, in ns.
    pub active_ns: u64,
    /// Number of spans.
    pub spans: usize,
    /// Bytes of these spans, in sum.
    pub bytes: u64,
}

/// Figures of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFigures {
    /// Its name.
    pub name: String,
    /// Whether it is a thread of the host.
    pub is_host: bool,
    /// Time for which the row had work, in ns. Waiting does not count as work.
    pub busy_ns: u64,
    /// Time for which it only waited, in ns.
    pub waiting_ns: u64,
    /// Number of spans that count as work.
    pub spans: usize,
}

/// Figures of a [`Timeline`]. The device's figures leave out the host's spans.
///
/// ```
/// use cuda_rt_timeline::{Engine, Kind, Row, Source, Span, Timeline};
///
/// let span = |kind, row, start_ns, end_ns| Span {
///     kind,
///     label: kind.name().into(),
///     row,
///     start_ns,
///     end_ns,
///     bytes: 1000,
///     waits_for: None,
/// };
/// let rows = ["Upload", "Compute"].map(|name| Row { name: name.to_owned(), is_host: false });
/// let timeline = Timeline::new("a device", Source::Model, rows.to_vec(), vec![
///     span(Kind::CopyToDevice, 0, 0, 400),
///     span(Kind::CopyToDevice, 0, 400, 800),
///     span(Kind::Kernel, 1, 500, 1000),
/// ]);
/// let figures = timeline.figures();
/// assert_eq!((figures.wall_ns, figures.serial_ns), (1000, 1300));
/// assert!((figures.overlap_ratio().expect("there is work") - 3.0 / 13.0).abs() < 1e-9);
/// assert_eq!(figures.idle_ns(), figures.wall_ns - figures.busy_ns);
///
/// let bound = figures.bound().expect("there is work");
/// assert_eq!((bound.engine, bound.busy_ns, bound.bytes), (Engine::ToDevice, 800, 2000));
/// assert_eq!(bound.steady_utilisation(), Some(1.0)); // never idle between its copies
/// assert_eq!(figures.efficiency(), Some(0.8));
/// assert_eq!(figures.utilisation(Engine::Compute), Some(0.5));
/// assert_eq!(figures.row_utilisation(&figures.rows[1]), Some(0.5));
/// println!("{figures}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The source of the times.
    pub source: Source,
    /// Time from the first start to the last end of the device's work, in ns.
    pub wall_ns: u64,
    /// Time for which the device had work on any engine, in ns.
    pub busy_ns: u64,
    /// Time that the device's work would take one after another: the sum of its spans, in ns.
    pub serial_ns: u64,
    /// The engines that had work.
    pub engines: Vec<EngineFigures>,
    /// All rows.
    pub rows: Vec<RowFigures>,
}

impl EngineFigures {
    /// Share of the time, from its first start to its last end, for which it had work. At 1 it
    /// never idled.
    pub fn steady_utilisation(&self) -> Option<f64> {
        ratio(self.busy_ns, self.active_ns)
    }
}

impl Figures {
    /// 1 − busy/serial: the share of the serial time that overlap saved. It is 0 for work one
    /// after another, and 2/3 for three engines that are always busy. It is never below 0, because
    /// time without work counts as [idle](Self::idle_ns). `None` without work.
    pub fn overlap_ratio(&self) -> Option<f64> {
        Some(1.0 - ratio(self.busy_ns, self.serial_ns)?)
    }

    /// Time between the first start and the last end for which no engine had work, in ns.
    pub fn idle_ns(&self) -> u64 {
        self.wall_ns - self.busy_ns
    }

    /// The overlap ratio and the idle time as readers see them.
    pub(super) fn overlap_in_words(&self) -> String {
        match self.overlap_ratio() {
            Some(ratio) => format!("overlap ratio {ratio:.3}, idle {}", Ns(self.idle_ns())),
            None => "no work".to_owned(),
        }
    }

    /// The engine that was busy longest. Its busy time is the least that this work can take.
    pub fn bound(&self) -> Option<&EngineFigures> {
        self.engines.iter().max_by_key(|engine| engine.busy_ns)
    }

    /// The bound's busy time over the wall time. At 1 this work is as fast as it can be on these
    /// engines.
    pub fn efficiency(&self) -> Option<f64> {
        ratio(self.bound()?.busy_ns, self.wall_ns)
    }

    /// Share of the wall time for which an engine had work.
    pub fn utilisation(&self, engine: Engine) -> Option<f64> {
        let of = self.engines.iter().find(|figures| figures.engine == engine);
        ratio(of.map_or(0, |figures| figures.busy_ns), self.wall_ns)
    }

    /// Share of the wall time for which a row had work. The share of a host thread may exceed 1:
    /// the thread may work before the device starts and after it ends.
    pub fn row_utilisation(&self, row: &RowFigures) -> Option<f64> {
        ratio(row.busy_ns, self.wall_ns)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn union_of<'a>(spans: impl Iterator<Item = &'a Span>) -> u64 {
    union_ns(spans.map(|span| (span.start_ns, span.end_ns)).collect())
}

impl Timeline {
    /// Figures of the whole timeline. For figures of a part, take its [`window`](Self::window)
    /// first.
    pub fn figures(&self) -> Figures {
        let work = |span: &&Span| span.kind.engine().is_some();
        let start = self.spans.iter().filter(work).map(|span| span.start_ns).min();
        let end = self.spans.iter().filter(work).map(|span| span.end_ns).max();
        let engines = [Engine::ToDevice, Engine::Compute, Engine::ToHost, Engine::Peer];
        Figures {
            source: self.source,
            wall_ns: end.unwrap_or(0) - start.unwrap_or(0),
            busy_ns: union_of(self.spans.iter().filter(work)),
            serial_ns: self.spans.iter().filter(work).map(Span::duration_ns).sum(),
            engines: engines
                .into_iter()
                .filter_map(|engine| self.engine_figures(engine))
                .collect(),
            rows: (0..self.rows.len()).map(|row| self.row_figures(row)).collect(),
        }
    }

    fn engine_figures(&self, engine: Engine) -> Option<EngineFigures> {
        let active = self.active_ns(engine)?;
        let of = || {
            self.spans
                .iter()
                .filter(|span| span.kind.engine() == Some(engine))
        };
        Some(EngineFigures {
            engine,
            busy_ns: union_of(of()),
            active_ns: active.end - active.start,
            spans: of().count(),
            bytes: of().map(|span| span.bytes).sum(),
        })
    }

    fn row_figures(&self, row: usize) -> RowFigures {
        let spans = self.row_spans(row);
        let waiting_ns = union_of(spans.iter().filter(|span| span.kind.is_wait()));
        let all_ns = union_of(spans.iter());
        RowFigures {
            name: self.rows[row].name.clone(),
            is_host: self.rows[row].is_host,
            // A host thread waits inside its stages; that part does not count as work.
            busy_ns: all_ns - waiting_ns,
            waiting_ns,
            spans: spans.iter().filter(|span| !span.kind.is_wait()).count(),
        }
    }

    /// For each label of this kind: the number of its spans and their summed time in ns. The
    /// longest comes first.
    pub fn totals(&self, kind: Kind) -> Vec<(&str, usize, u64)> {
        let mut totals: Vec<(&str, usize, u64)> = Vec::new();
        for span in self.spans.iter().filter(|span| span.kind == kind) {
            match totals.iter_mut().find(|(label, ..)| *label == span.label) {
                Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + span.duration_ns()),
                None => totals.push((&span.label, 1, span.duration_ns())),
            }
        }
        totals.sort_by_key(|(.., sum)| std::cmp::Reverse(*sum));
        totals
    }
}

pub(super) fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::ToDevice => "copies to device",
        Engine::ToHost => "copies to host",
        Engine::Compute => "kernels",
        Engine::Peer => "copies between devices",
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent =
            |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
        writeln!(
            f,
            "wall {}, serial {}, {} ({})",
            Ns(self.wall_ns),
            Ns(self.serial_ns),
            self.overlap_in_words(),
            self.source.describe()
        )?;
        for engine in &self.engines {
            writeln!(
                f,
                "  {:<16} busy {:>10}, {:>7} of the wall time, {:>7} while active, {} spans",
                engine_name(engine.engine),
                Ns(engine.busy_ns).to_string(),
                percent(ratio(engine.busy_ns, self.wall_ns)),
                percent(engine.steady_utilisation()),
                engine.spans
            )?;
        }
        if let Some(bound) = self.bound() {
            writeln!(
                f,
                "  bound by {}: efficiency {}",
                engine_name(bound.engine),
                percent(self.efficiency())
            )?;
        }
        Ok(())
    }
}
