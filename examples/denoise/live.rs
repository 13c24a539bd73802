//! [`Live`]: what the live view of a run shows: frames, lanes, throughput and kernel utilisation.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cuda_rt::pipeline::Worked;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};

use super::observer::{DOWNLOAD, KERNEL, Observer};

/// The lanes in the order of the pipeline's stages. Colours as in the pictures of timelines.
const LANES: [(&str, Color); 5] = [
    ("read", Color::Rgb(240, 199, 94)),
    ("upload", Color::Rgb(0, 114, 178)),
    ("kernel", Color::Rgb(0, 158, 115)),
    ("download", Color::Rgb(213, 94, 0)),
    ("write", Color::Rgb(240, 199, 94)),
];
/// Number of frames that the lanes show, about.
const FRAMES: usize = 10;
/// Largest number of pieces of work that are kept: the lanes need far fewer.
const KEPT: usize = 512;
/// Columns of a lane's name, and of its share.
const NAME: u16 = 12;
const SHARE: u16 = 8;
/// Characters for the shares of a slice of time, from almost nothing to the whole slice.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is known of a run that goes on.
#[derive(Debug)]
pub struct Live {
    /// The device, and the source of the times.
    heading: String,
    modelled: bool,
    /// Number of frames, if it is known.
    total: Option<u64>,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last work, in the order in which its times became known.
    worked: VecDeque<Worked>,
    written: u64,
    kernels: Duration,
    /// The end of the last download. All work on the device before it is known.
    known: Duration,
    /// Throughput and utilisation, one value for each time that the view was drawn.
    history: VecDeque<(u64, u64)>,
}

impl Observer for Live {
    fn written(&self, _index: u64, _luma: &[u8], frames: u64) {
        let mut state = self.state();
        state.written = state.written.max(frames);
    }

    fn worked(&self, worked: Worked) {
        let mut state = self.state();
        if worked.stage == KERNEL {
            state.kernels += worked.end - worked.start;
        }
        if worked.stage == DOWNLOAD {
            state.known = state.known.max(worked.end);
        }
        if state.worked.len() == KEPT {
            state.worked.pop_front();
        }
        state.worked.push_back(worked);
    }
}

impl Live {
    /// The view of a run that begins now.
    pub fn new(heading: String, modelled: bool, total: Option<u64>) -> Self {
        Self {
            heading,
            modelled,
            total,
            began: Instant::now(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each call leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the view, `elapsed` after the run began.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        self.draw_after(frame, self.began.elapsed());
    }

    fn draw_after(&self, frame: &mut Frame<'_>, elapsed: Duration) {
        let mut state = self.state();
        let window = state.window();
        let (throughput, utilisation) = (state.throughput(&window), state.share(KERNEL, &window));
        state
            .history
            .push_back((throughput as u64, (utilisation * 100.0) as u64));
        if state.history.len() > usize::from(frame.area().width) {
            state.history.pop_front();
        }

        let block = Block::bordered()
            .title(Line::from(" denoise ").bold())
            .title_top(Line::from(format!(" {} ", self.heading)).right_aligned())
            .title_bottom(Line::from(" q or Ctrl-C ends the program ").right_aligned());
        let inner = block.inner(frame.area());
        frame.render_widget(block, frame.area());
        let [progress, _, lanes, axis, _, rates, busy] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(LANES.len() as u16),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Fill(1),
        ])
        .horizontal_margin(1)
        .areas(inner);

        self.draw_progress(frame, progress, state.written, elapsed);
        for (lane, y) in (0..LANES.len()).zip(lanes.y..lanes.bottom()) {
            state.draw_lane(
                frame,
                Rect {
                    y,
                    height: 1,
                    ..lanes
                },
                lane,
                &window,
            );
        }
        let span = window.end - window.start;
        let from = format!("{} to {}, {}", time(window.start), time(window.end), self.times());
        let note = Line::from(format!("the last {}: {from}", time(span))).dim();
        frame.render_widget(Paragraph::new(note), indented(axis));

        let since = state.kernels.as_secs_f64() / state.known.as_secs_f64().max(1e-9);
        let throughputs: Vec<u64> = state.history.iter().map(|(throughput, _)| *throughput).collect();
        let utilisations: Vec<u64> = state.history.iter().map(|(_, share)| *share).collect();
        let words = [
            format!("throughput: {throughput:.0} frames/s, {}", self.times()),
            format!(
                "kernel utilisation: {:.1} %, {:.1} % since the start",
                utilisation * 100.0,
                since * 100.0
            ),
        ];
        for (area, (words, (data, most))) in [rates, busy].into_iter().zip(
            words
                .into_iter()
                .zip([(throughputs, None), (utilisations, Some(100))]),
        ) {
            let mut line = Sparkline::default().data(&data).fg(LANES[KERNEL].1);
            if let Some(most) = most {
                line = line.max(most);
            }
            frame.render_widget(line.block(Block::new().title(words)), area);
        }
    }

    fn times(&self) -> &'static str {
        if self.modelled { "modelled" } else { "measured" }
    }

    fn draw_progress(&self, frame: &mut Frame<'_>, area: Rect, written: u64, elapsed: Duration) {
        let rate = written as f64 / elapsed.as_secs_f64().max(1e-3);
        // The model's clock is not the reader's.
        let pace = if self.modelled {
            format!("{rate:.1} a second here")
        } else {
            format!("{} so far", time(elapsed))
        };
        let (ratio, label) = match self.total {
            Some(total) => (
                written as f64 / total.max(1) as f64,
                format!("{written} of {total} frames, {pace}"),
            ),
            // The number of a file's frames is unknown before its end.
            None => (0.0, format!("{written} frames, {pace}")),
        };
        let gauge = Gauge::default().ratio(ratio.clamp(0.0, 1.0)).label(label);
        let style = Style::new().fg(Color::Gray).bg(Color::DarkGray);
        frame.render_widget(gauge.gauge_style(style), area);
    }
}

impl State {
    /// The time that the lanes show: it ends with the last download, and holds some frames. Its
    /// length is a round number, so that it stays the same from one drawing to the next.
    fn window(&self) -> Range<Duration> {
        let downloads = self.worked.iter().filter(|worked| worked.stage == DOWNLOAD);
        let earlier = downloads
            .rev()
            .nth(FRAMES)
            .map_or(Duration::ZERO, |worked| worked.end);
        let least = self.known.saturating_sub(earlier).as_nanos().max(1_000) as u64;
        let power = 10_u64.pow(least.ilog10());
        let length = [1, 2, 5, 10].map(|times| times * power);
        let length = length
            .into_iter()
            .find(|length| *length >= least)
            .unwrap_or(least);
        self.known.saturating_sub(Duration::from_nanos(length))..self.known
    }

    fn of_lane(&self, lane: usize) -> impl Iterator<Item = &Worked> {
        self.worked.iter().filter(move |worked| worked.stage == lane)
    }

    /// Downloads in the window, for each second.
    fn throughput(&self, window: &Range<Duration>) -> f64 {
        let inside = |worked: &&Worked| window.start < worked.end && worked.end <= window.end;
        let seconds = (window.end - window.start).as_secs_f64();
        self.of_lane(DOWNLOAD).filter(inside).count() as f64 / seconds.max(1e-9)
    }

    /// The share of the window for which the lane's stage worked.
    fn share(&self, lane: usize, window: &Range<Duration>) -> f64 {
        let inside = |worked: &Worked| {
            let (start, end) = (worked.start.max(window.start), worked.end.min(window.end));
            end.saturating_sub(start).as_secs_f64()
        };
        let busy: f64 = self.of_lane(lane).map(inside).sum();
        (busy / (window.end - window.start).as_secs_f64().max(1e-9)).min(1.0)
    }

    fn draw_lane(&self, frame: &mut Frame<'_>, area: Rect, lane: usize, window: &Range<Duration>) {
        let (name, colour) = LANES[lane];
        let columns = u32::from(area.width.saturating_sub(NAME + SHARE));
        let length = window.end - window.start;
        let at = |column: u32| window.start + length * column / columns.max(1);
        let glyph = |column: u32| {
            let share = self.share(lane, &(at(column)..at(column + 1)));
            match (share * HEIGHTS.len() as f64).ceil() as usize {
                0 => ' ',
                height => HEIGHTS[height.min(HEIGHTS.len()) - 1],
            }
        };
        let bar: String = (0..columns).map(glyph).collect();
        let share = format!("{:>6.1} %", self.share(lane, window) * 100.0);
        let line = Line::from(vec![
            Span::raw(format!("{name:<width$}", width = usize::from(NAME))),
            Span::styled(bar, Style::new().fg(colour).bg(Color::Rgb(36, 36, 36))),
            Span::raw(share),
        ]);
        frame.render_widget(Paragraph::new(line), area);
    }
}

fn indented(area: Rect) -> Rect {
    Rect {
        x: area.x + NAME.min(area.width),
        width: area.width.saturating_sub(NAME),
        ..area
    }
}

/// A time in a unit that fits.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        1e-3..1.0 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests;
