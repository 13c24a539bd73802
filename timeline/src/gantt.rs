//! Gantt charts for terminals.

use std::fmt;

use super::Timeline;
use crate::Ns;
use cuda_rt_driver::Kind;

/// A timeline as text of a given width, with one line for each row. Each character stands for a
/// slice of time; its height is the share of the slice for which the row had work. Print it with
/// `{}`.
///
/// ```
/// use cuda_rt_timeline::{Kind, Row, Source, Span, Timeline};
///
/// let rows = vec![Row { name: "Compute".to_owned(), is_host: false }];
/// let kernel = Span {
///     kind: Kind::Kernel,
///     label: "image::blur".into(),
///     row: 0,
///     start_ns: 0,
///     end_ns: 250,
///     bytes: 0,
///     waits_for: None,
/// };
/// assert_eq!((kernel.short_label(), kernel.duration_ns()), ("blur", 250));
/// let timeline = Timeline::new("a device", Source::Model, rows, vec![kernel]);
/// let chart = timeline.gantt(60).ascii(true).to_string();
/// assert!(chart.is_ascii() && chart.contains("Compute"), "{chart}");
/// assert!(chart.contains("modelled"), "{chart}");
/// assert_eq!(Source::Model.describe(), "times are MODELLED, not measured");
/// ```
#[derive(Clone, Debug)]
pub struct Gantt<'a> {
    timeline: &'a Timeline,
    width: usize,
    ascii: bool,
}

/// Characters for the shares of a slice, from almost nothing to the whole slice.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Largest number of columns for a row's name.
const NAME: usize = 16;
/// Number of columns for a row's utilisation, with the space before it.
const SHARE: usize = 8;

impl Timeline {
    /// A chart for a terminal of `width` columns (40 at least). It uses Unicode's block characters
    /// if the locale has them (`LC_ALL`, `LC_CTYPE`, `LANG`), and ASCII otherwise.
    pub fn gantt(&self, width: usize) -> Gantt<'_> {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        Gantt {
            timeline: self,
            width: width.max(40),
            ascii: locale.is_some_and(|locale| !is_utf8(&locale)),
        }
    }
}

/// Whether text of this locale may hold more than ASCII. The locales `C` and `POSIX` promise ASCII
/// only.
fn is_utf8(locale: &str) -> bool {
    let codeset = locale.split('@').next().unwrap_or(locale).to_ascii_lowercase();
    codeset.ends_with("utf-8") || codeset.ends_with("utf8")
}

impl Gantt<'_> {
    /// Uses these characters instead of the locale's.
    pub fn ascii(self, ascii: bool) -> Self {
        Self { ascii, ..self }
    }

    fn bar(&self, row: usize, columns: usize) -> String {
        let extent = self.timeline.extent_ns();
        let length = (extent.end - extent.start).max(1) as f64;
        // For each slice: the time of each kind, as a share of the slice.
        let mut shares = vec![[0.0_f64; Kind::ALL.len()]; columns];
        for span in self.timeline.row_spans(row) {
            let at = |ns: u64| (ns - extent.start) as f64 / length * columns as f64;
            let (from, to) = (at(span.start_ns), at(span.end_ns));
            let last = (to.ceil() as usize).min(columns);
            for (slice, shares) in shares.iter_mut().enumerate().take(last).skip(from as usize) {
                let inside = to.min(slice as f64 + 1.0) - from.max(slice as f64);
                shares[span.kind as usize] += inside.max(0.0);
            }
        }
        shares.iter().map(|shares| self.glyph(shares)).collect()
    }

    fn glyph(&self, shares: &[f64; Kind::ALL.len()]) -> char {
        let of = |kind: Kind| shares[kind as usize];
        let waiting: f64 = Kind::ALL.into_iter().filter(|kind| kind.is_wait()).map(of).sum();
        let working = Kind::ALL.into_iter().filter(|kind| !kind.is_wait());
        // A host thread waits inside its stages; that part does not count as work.
        let inside = of(Kind::HostWait).min(of(Kind::Stage));
        let work = (working.clone().map(of).sum::<f64>() - inside).clamp(0.0, 1.0);
        if work < 1e-3 && waiting < 0.5 {
            return ' ';
        }
        if work < waiting.min(0.0625) || work < 1e-3 {
            return if self.ascii { '.' } else { '·' };
        }
        if !self.ascii {
            let height = (work * HEIGHTS.len() as f64).ceil() as usize;
            return HEIGHTS[height.clamp(1, HEIGHTS.len()) - 1];
        }
        let most = working
            .max_by(|a, b| of(*a).total_cmp(&of(*b)))
            .expect("there are kinds of work");
        let (full, half) = match most {
            Kind::CopyToDevice => ('U', 'u'),
            Kind::CopyToHost => ('D', 'd'),
            Kind::Copy => ('C', 'c'),
            Kind::CopyPeer => ('P', 'p'),
            Kind::Fill => ('F', 'f'),
            Kind::Graph => ('G', 'g'),
            Kind::Stage => ('S', 's'),
            _ => ('K', 'k'),
        };
        if work >= 0.5 { full } else { half }
    }
}

/// `text` in exactly `columns` columns; longer text is cut.
fn fit(text: &str, columns: usize) -> String {
    let cut: String = text.chars().take(columns).collect();
    format!("{cut:<columns$}")
}

impl fmt::Display for Gantt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timeline = self.timeline;
        let figures = timeline.figures();
        let names = timeline.rows.iter().map(|row| row.name.chars().count());
        let name = names.max().unwrap_or(0).clamp(4, NAME);
        let columns = self.width - name - SHARE - 3;
        for (row, of_row) in figures.rows.iter().enumerate() {
            if row > 0 && of_row.is_host && !figures.rows[row - 1].is_host {
                writeln!(f, "{} |{}|", fit("host", name), " ".repeat(columns))?;
            }
            let share = figures
                .row_utilisation(of_row)
                .map_or("-".into(), |share| format!("{:.1} %", share * 100.0));
            let bar = self.bar(row, columns);
            writeln!(f, "{} |{bar}|{share:>SHARE$}", fit(&of_row.name, name))?;
        }
        let extent = timeline.extent_ns();
        let mut length = Ns(extent.end - extent.start).to_string();
        if self.ascii {
            length = length.replace('µ', "u");
        }
        let note = match timeline.source {
            super::Source::Model => " modelled",
            _ => "",
        };
        let axis = format!("0{:>width$}", format!("{length}{note}"), width = columns - 1);
        writeln!(f, "{}  {axis}", fit("", name))
    }
}
