//! Pictures of timelines: one SVG file, which needs no script, fonts or viewer of its own.

use std::fmt;
use std::io::{self, Write};

use super::figures::engine_name;
use super::lanes::lanes;
use super::text::{Bytes, tick_ns};
use super::{Figures, Gap, Span, Timeline};
use crate::Ns;
use cuda_rt_driver::Kind;

/// Sizes in px.
const WIDTH: f64 = 1120.0;
const RIGHT: f64 = 76.0;
/// Left of the rows' names, and between the names and the plot.
const MARGIN: f64 = 16.0;
const BESIDE_NAMES: f64 = 10.0;
/// Largest number of characters of a row's name.
const NAME: usize = 32;
const HEADER: f64 = 74.0;
const LANE: f64 = 24.0;
const BETWEEN_ROWS: f64 = 8.0;
const GROUP: f64 = 24.0;
const AXIS: f64 = 34.0;
const LEGEND: f64 = 30.0;
/// Approximate width of a character in a bar's label, and in a row's name, whose font is larger.
const CHARACTER: f64 = 6.1;
const CHARACTER_OF_NAME: f64 = 6.6;
/// Neighbouring bars of one kind that are narrower than this are drawn as one bar.
const NARROW: f64 = 0.75;

/// Colours that colour-blind readers can tell apart (Okabe and Ito's), and whose lightness differs
/// in grey print.
fn fill(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::CopyToDevice => ("#0072b2", "#fff"),
        Kind::CopyToHost => ("#d55e00", "#fff"),
        Kind::Copy => ("#56b4e9", "#000"),
        Kind::CopyPeer => ("#7a3db8", "#fff"),
        Kind::Fill => ("#cc79a7", "#000"),
        Kind::Kernel => ("#009e73", "#fff"),
        Kind::Graph => ("#005c43", "#fff"),
        Kind::Stage => ("#f0c75e", "#000"),
        Kind::Wait | Kind::HostWait => ("url(#wait)", "#333"),
    }
}

/// Text, escaped for XML.
struct Xml<'a>(&'a str);

impl fmt::Display for Xml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // Hover text has lines; elsewhere a line's end is shown as a space.
                '\n' => f.write_str("\n")?,
                // XML has no way to write most control characters.
                c if c.is_control() => f.write_str(" ")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// The place of a row in the picture.
struct Place {
    row: usize,
    top: f64,
    lane_of: Vec<usize>,
    lanes: usize,
}

/// The picture's layout.
struct Layout<'a> {
    timeline: &'a Timeline,
    figures: Figures,
    start_ns: u64,
    length_ns: u64,
    /// Left edge of the plot: the longest name ends before it.
    left: f64,
    places: Vec<Place>,
    /// Top of the host's heading, if it has rows.
    host_top: Option<f64>,
    bottom: f64,
}

impl Timeline {
    /// Writes a picture as SVG: the figures at the top, then streams as rows, and host threads
    /// below. Hover text describes each span. The file needs no other file, is readable in print,
    /// and runs no script.
    ///
    /// # Errors
    /// Errors of writing to `out`.
    pub fn write_svg(&self, mut out: impl Write) -> io::Result<()> {
        let layout = Layout::new(self);
        layout.open(&mut out)?;
        layout.axis(&mut out)?;
        layout.rows(&mut out)?;
        layout.legend(&mut out)?;
        writeln!(out, "</svg>")?;
        out.flush()
    }
}

impl<'a> Layout<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let extent = timeline.extent_ns();
        let mut top = HEADER + GROUP;
        let (mut places, mut host_top) = (Vec::new(), None);
        // Streams come first, in whatever order the rows were given.
        let of = |host: bool| (0..timeline.rows.len()).filter(move |row| timeline.rows[*row].is_host == host);
        for row in of(false).chain(of(true)) {
            let spans = timeline.row_spans(row);
            if spans.is_empty() {
                continue;
            }
            if timeline.rows[row].is_host && host_top.is_none() {
                host_top = Some(top);
                top += GROUP;
            }
            let (lane_of, lanes) = lanes(spans, false);
            places.push(Place {
                row,
                top,
                lane_of,
                lanes,
            });
            top += lanes as f64 * LANE + BETWEEN_ROWS;
        }
        let names = places.iter().map(|place| &timeline.rows[place.row].name);
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        Self {
            timeline,
            figures: timeline.figures(),
            start_ns: extent.start,
            length_ns: (extent.end - extent.start).max(1),
            left: MARGIN + longest.clamp(12, NAME) as f64 * CHARACTER_OF_NAME + BESIDE_NAMES,
            places,
            host_top,
            bottom: top,
        }
    }

    fn x(&self, ns: u64) -> f64 {
        let plot = WIDTH - self.left - RIGHT;
        self.left + (ns.saturating_sub(self.start_ns)) as f64 / self.length_ns as f64 * plot
    }

    fn open(&self, out: &mut impl Write) -> io::Result<()> {
        let height = self.bottom + AXIS + LEGEND;
        writeln!(
            out,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" font-family="Helvetica, Arial, 'Liberation Sans', sans-serif" font-size="12">
<title>Timeline of {device}</title>
<defs>
<pattern id="wait" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#f4f4f4"/><rect width="1.5" height="6" fill="#b8b8b8"/></pattern>
</defs>
<rect width="{WIDTH}" height="{height}" fill="#fff"/>
<text x="16" y="26" font-size="16" font-weight="bold">{device}</text>
<text x="{edge}" y="26" text-anchor="end" fill="#555">{source}</text>"##,
            device = Xml(&self.timeline.device),
            edge = WIDTH - 16.0,
            source = Xml(self.timeline.source.describe()),
        )?;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let mut summary = vec![
            format!("wall {}", Ns(self.figures.wall_ns)),
            format!("one after another {}", Ns(self.figures.serial_ns)),
            self.figures.overlap_in_words(),
        ];
        if let (Some(bound), Some(efficiency)) = (self.figures.bound(), self.figures.efficiency()) {
            summary.push(format!(
                "bound by {}, {} busy: efficiency {}",
                engine_name(bound.engine),
                Ns(bound.busy_ns),
                percent(efficiency)
            ));
        }
        writeln!(
            out,
            r##"<text x="16" y="50" font-size="13">{}</text>"##,
            Xml(&summary.join("  ·  "))
        )
    }

    fn axis(&self, out: &mut impl Write) -> io::Result<()> {
        let step = tick_ns(self.length_ns, 10);
        let (top, bottom) = (HEADER + GROUP - 6.0, self.bottom);
        for tick in (0..=self.length_ns / step).map(|i| i * step) {
            let x = self.x(self.start_ns + tick);
            writeln!(
                out,
                r##"<path d="M{x:.2} {top}V{bottom}" stroke="#e2e2e2"/><text x="{x:.2}" y="{:.2}" text-anchor="middle" font-size="11" fill="#555">{}</text>"##,
                bottom + 16.0,
                Xml(&round(tick)),
            )?;
        }
        Ok(())
    }

    fn rows(&self, out: &mut impl Write) -> io::Result<()> {
        self.heading(out, HEADER, "streams")?;
        if let Some(top) = self.host_top {
            self.heading(out, top, "host threads")?;
        }
        let gaps = self.timeline.gaps();
        for place in &self.places {
            let row = &self.timeline.rows[place.row];
            let of_row = &self.figures.rows[place.row];
            let middle = place.top + place.lanes as f64 * LANE / 2.0 + 4.0;
            writeln!(
                out,
                r##"<text x="{:.2}" y="{middle:.2}" text-anchor="end">{}</text>"##,
                self.left - BESIDE_NAMES,
                Xml(&shorten(&row.name, NAME))
            )?;
            if let Some(share) = self.figures.row_utilisation(of_row) {
                writeln!(
                    out,
                    r##"<text x="{:.2}" y="{middle:.2}" text-anchor="end" fill="#333">{:.1} %<title>{} of work, {} of waiting</title></text>"##,
                    WIDTH - 16.0,
                    share * 100.0,
                    Ns(of_row.busy_ns),
                    Ns(of_row.waiting_ns)
                )?;
            }
            for gap in gaps.iter().filter(|gap| gap.row == place.row) {
                self.gap(out, place, gap)?;
            }
            for lane in 0..place.lanes {
                self.lane(out, place, lane)?;
            }
        }
        Ok(())
    }

    fn heading(&self, out: &mut impl Write, top: f64, text: &str) -> io::Result<()> {
        writeln!(
            out,
            r##"<text x="16" y="{:.2}" font-size="11" font-weight="bold" fill="#777">{text}</text>"##,
            top + 12.0
        )
    }

    /// An invisible bar under the other bars. Its hover text says why the stream idled.
    fn gap(&self, out: &mut impl Write, place: &Place, gap: &Gap) -> io::Result<()> {
        let (from, to) = (self.x(gap.start_ns), self.x(gap.end_ns));
        if to - from < NARROW {
            return Ok(());
        }
        writeln!(
            out,
            r##"<rect x="{from:.2}" y="{:.2}" width="{:.2}" height="{:.2}" fill="#fff" fill-opacity="0"><title>idle for {}: {}</title></rect>"##,
            place.top,
            to - from,
            LANE * place.lanes as f64,
            Ns(gap.duration_ns()),
            Xml(&self.timeline.explain(gap))
        )
    }

    /// Draws the spans of one lane. Narrow neighbours of one kind become one bar, so that a long
    /// recording makes a small file.
    fn lane(&self, out: &mut impl Write, place: &Place, lane: usize) -> io::Result<()> {
        let top = place.top + lane as f64 * LANE;
        let spans = self.timeline.row_spans(place.row).iter().zip(&place.lane_of);
        let mut spans = spans
            .filter(|(_, of)| **of == lane)
            .map(|(span, _)| span)
            .peekable();
        while let Some(span) = spans.next() {
            let (from, mut to, mut count) = (self.x(span.start_ns), self.x(span.end_ns), 1);
            if to - from < NARROW {
                while let Some(next) = spans.next_if(|next| {
                    let (start, end) = (self.x(next.start_ns), self.x(next.end_ns));
                    next.kind == span.kind && end - start < NARROW && start - to < NARROW / 2.0
                }) {
                    to = self.x(next.end_ns);
                    count += 1;
                }
            }
            let title = match count {
                1 => self.describe(span),
                _ => format!("{count} × {}", span.kind.name()),
            };
            self.bar(out, span, (from, to), top, &title)?;
        }
        Ok(())
    }

    fn bar(
        &self,
        out: &mut impl Write,
        span: &Span,
        (from, to): (f64, f64),
        top: f64,
        title: &str,
    ) -> io::Result<()> {
        let (fill, ink) = fill(span.kind);
        // Bars of waits are lower than bars of work, so that work stands out without colour too.
        let inset = if span.kind == Kind::Wait { 8.0 } else { 1.5 };
        let width = (to - from).max(0.4);
        // A white edge separates neighbours, if the bar is wide enough.
        let edge = if width > 4.0 {
            r##" stroke="#fff" stroke-width=".8""##
        } else {
            ""
        };
        write!(
            out,
            r##"<g><title>{}</title><rect x="{from:.2}" y="{:.2}" width="{width:.2}" height="{:.2}" rx="{:.1}" fill="{fill}"{edge}/>"##,
            Xml(title),
            top + inset,
            LANE - 2.0 * inset,
            (width / 4.0).min(2.0),
        )?;
        let room = ((width - 8.0) / CHARACTER).floor();
        let label = match span.kind {
            Kind::Wait => String::new(),
            Kind::HostWait => "waits".into(),
            Kind::CopyToDevice | Kind::CopyToHost | Kind::Copy | Kind::CopyPeer | Kind::Fill => {
                Bytes(span.bytes).to_string()
            }
            Kind::Kernel | Kind::Graph | Kind::Stage => span.short_label().to_owned(),
        };
        if !label.is_empty() && (label.chars().count() as f64 <= room || room >= 6.0) {
            write!(
                out,
                r##"<text x="{:.2}" y="{:.2}" text-anchor="middle" font-size="11" fill="{ink}" pointer-events="none">{}</text>"##,
                f64::midpoint(from, to),
                top + LANE / 2.0 + 4.0,
                Xml(&shorten(&label, room as usize)),
            )?;
        }
        writeln!(out, "</g>")
    }

    /// The hover text of a span.
    fn describe(&self, span: &Span) -> String {
        let mut text = format!("{} ({})", span.label, span.kind.name());
        if let Some(row) = span.waits_for {
            text = format!("{} for {}", span.kind.name(), self.timeline.rows[row].name);
        }
        text += &format!(
            "\n{}, from {}",
            Ns(span.duration_ns()),
            Ns(span.start_ns - self.start_ns)
        );
        if span.bytes > 0 && span.duration_ns() > 0 {
            let rate = span.bytes as f64 / span.duration_ns() as f64;
            text += &format!("\n{}, {rate:.1} GB/s", Bytes(span.bytes));
        }
        text
    }

    fn legend(&self, out: &mut impl Write) -> io::Result<()> {
        let (mut x, y) = (self.left, self.bottom + AXIS);
        for kind in Kind::ALL {
            if self.timeline.spans.iter().all(|span| span.kind != kind) {
                continue;
            }
            writeln!(
                out,
                r##"<rect x="{x:.2}" y="{y:.2}" width="14" height="12" rx="2" fill="{}"/><text x="{:.2}" y="{:.2}" font-size="11" fill="#333">{}</text>"##,
                fill(kind).0,
                x + 20.0,
                y + 10.0,
                kind.name()
            )?;
            x += 44.0 + kind.name().len() as f64 * CHARACTER;
        }
        writeln!(
            out,
            r##"<text x="{:.2}" y="{:.2}" text-anchor="end" font-size="11" fill="#777">share of wall time</text>"##,
            WIDTH - 16.0,
            y + 10.0
        )
    }
}

/// A time on the axis. Steps are round numbers, so they need few digits.
fn round(ns: u64) -> String {
    let (unit, per) = match ns {
        0 => return "0".into(),
        1..1_000 => ("ns", 1),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    format!("{} {unit}", ns as f64 / f64::from(per))
}

/// `text`, cut to at most `most` characters.
fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
