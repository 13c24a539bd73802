//! Gaps: where streams idled, and what ended each gap.

use super::Timeline;
use cuda_rt_driver::Engine;

/// Time between two operations of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The stream's row.
    pub row: usize,
    /// End of the operation before it, in ns.
    pub start_ns: u64,
    /// Start of the operation after it, in ns.
    pub end_ns: u64,
    /// Index of the operation after it.
    pub before: usize,
    /// What ended the gap.
    pub cause: Cause,
}

impl Gap {
    /// The gap's length, in ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The cause of a gap. If the cause had ended earlier, the stream would have gone on earlier. Spans
/// are given by their index in [`Timeline::spans`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The stream waited for an event of another stream. The event came when this span ended.
    Wait {
        /// The last operation before that event, if the timeline has it.
        span: Option<usize>,
    },
    /// A span of another stream held the engine.
    Engine {
        /// The span that held the engine.
        span: usize,
    },
    /// The device was ready, but the host had not enqueued the operation yet.
    Host {
        /// The last span that the host finished in the gap, if the timeline has one.
        span: Option<usize>,
    },
}

/// End times and spans, sorted by end time.
type Ends = Vec<(u64, usize)>;

/// The last of `ends` that is after `from` and not after `to`.
fn last_within(ends: &Ends, from: u64, to: u64) -> Option<usize> {
    let after = ends.partition_point(|(end, _)| *end <= to);
    let (end, span) = *ends[..after].last()?;
    (end > from).then_some(span)
}

impl Timeline {
    /// The gaps between the operations of each stream, by row and time. The time before a stream's
    /// first operation does not count as a gap.
    ///
    /// Of measured times, moments within 10 µs count as one moment.
    pub fn gaps(&self) -> Vec<Gap> {
        let ends = |of: &dyn Fn(usize) -> bool| {
            let mut ends: Ends = (0..self.spans.len())
                .filter(|span| of(*span))
                .map(|span| (self.spans[span].end_ns, span))
                .collect();
            ends.sort_unstable();
            ends
        };
        let kind = |span: usize| self.spans[span].kind;
        let work_of: Vec<Ends> = (0..self.rows.len())
            .map(|row| ends(&|span| self.spans[span].row == row && kind(span).engine().is_some()))
            .collect();
        let waits_of: Vec<Ends> = (0..self.rows.len())
            .map(|row| ends(&|span| self.spans[span].row == row && kind(span) == cuda_rt_driver::Kind::Wait))
            .collect();
        let engines = [Engine::ToDevice, Engine::ToHost, Engine::Compute, Engine::Peer]
            .map(|engine| ends(&|span| kind(span).engine() == Some(engine)));
        let host = ends(&|span| self.rows[self.spans[span].row].is_host);
        let near = self.source.tolerance_ns();

        let mut gaps = Vec::new();
        for (row, waits) in waits_of.iter().enumerate() {
            let mut idle_since: Option<u64> = None;
            for before in self.row_range(row) {
                let span = &self.spans[before];
                let Some(engine) = span.kind.engine() else {
                    continue;
                };
                let (start_ns, end_ns) = (idle_since.unwrap_or(span.start_ns), span.start_ns);
                idle_since = Some(idle_since.unwrap_or(0).max(span.end_ns));
                if end_ns <= start_ns {
                    continue;
                }
                let waited = last_within(waits, start_ns, end_ns + near);
                let waited_until = waited.map_or(start_ns, |wait| self.spans[wait].end_ns);
                let held = |from| {
                    let span = last_within(&engines[engine as usize], from, end_ns + near)?;
                    (self.spans[span].row != row && self.spans[span].end_ns + near >= end_ns).then_some(span)
                };
                let cause = match waited {
                    Some(wait) if waited_until + near >= end_ns => Cause::Wait {
                        span: self.spans[wait]
                            .waits_for
                            .and_then(|other| last_within(&work_of[other], 0, waited_until + near)),
                    },
                    _ => match held(waited_until) {
                        Some(span) => Cause::Engine { span },
                        None => Cause::Host {
                            span: last_within(&host, start_ns, end_ns + near),
                        },
                    },
                };
                gaps.push(Gap {
                    row,
                    start_ns,
                    end_ns,
                    before,
                    cause,
                });
            }
        }
        gaps
    }

    /// The cause of a gap, in words.
    pub fn explain(&self, gap: &Gap) -> String {
        let name = |span: usize| {
            let span = &self.spans[span];
            format!("`{}` of {}", span.short_label(), self.rows[span.row].name)
        };
        match gap.cause {
            Cause::Wait { span: Some(span) } => format!("waited for {}", name(span)),
            Cause::Wait { span: None } => "waited for another stream".into(),
            Cause::Engine { span } => format!("the engine was taken by {}", name(span)),
            Cause::Host { span: Some(span) } => {
                format!("the host had not enqueued it; it last finished {}", name(span))
            }
            Cause::Host { span: None } => "the host had not enqueued it".into(),
        }
    }
}
