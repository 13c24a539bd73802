//! How long each stage was busy with each item, by the clock of whoever did the work.

use std::collections::VecDeque;

use super::run::Epoch;
use crate::error::Result;
use crate::place::{Live, StreamTag};
use crate::stream::Stream;
use crate::timestamp::{Reached, Timestamp};

/// Items whose times are kept one by one, for the advice; of later ones only the sums are.
pub(super) const SAMPLES: u64 = 1024;

/// What one stage, or one of its workers, has done.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) items: u64,
    pub(super) busy_ns: u64,
    pub(super) longest_ns: u64,
    /// Start of the first item and end of the last, since the pipeline began.
    pub(super) between_ns: Option<(u64, u64)>,
    /// Item and duration.
    pub(super) samples: Vec<(u64, u64)>,
}

impl Tally {
    /// With room for all samples, so that adding one never allocates.
    pub(super) fn new() -> Self {
        Self {
            samples: Vec::with_capacity(SAMPLES as usize),
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, item: u64, start_ns: u64, end_ns: u64) {
        let duration = end_ns.saturating_sub(start_ns);
        self.items += 1;
        self.busy_ns += duration;
        self.longest_ns = self.longest_ns.max(duration);
        let (first, last) = self.between_ns.unwrap_or((start_ns, end_ns));
        self.between_ns = Some((first.min(start_ns), last.max(end_ns)));
        if item < SAMPLES {
            self.samples.push((item, duration));
        }
    }

    /// Adds what another worker of the same stage has done.
    pub(super) fn merge(&mut self, other: &Self) {
        self.items += other.items;
        self.busy_ns += other.busy_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.between_ns = match (self.between_ns, other.between_ns) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.samples.extend(&other.samples);
        self.samples.sort_unstable();
    }
}

/// Times a stage's work on a stream by events around it, and reads them once they are reached: never blocking the stage.
pub(super) struct StreamMeter<'a, D: Live> {
    tally: Tally,
    /// `None` where nothing is to be timed.
    epoch: Option<&'a Epoch<D>>,
    pending: VecDeque<(u64, Timestamp<D>, Timestamp<D>)>,
}

impl<'a, D: Live> StreamMeter<'a, D> {
    /// At most `in_flight` items are ever between their enqueueing here and their end.
    pub(super) fn new(epoch: Option<&'a Epoch<D>>, in_flight: usize) -> Self {
        Self {
            tally: Tally::new(),
            epoch,
            pending: VecDeque::with_capacity(if epoch.is_some() { in_flight + 2 } else { 0 }),
        }
    }

    /// Enqueues `work` between two marks.
    pub(super) fn around<S: StreamTag<Device = D>, O>(
        &mut self,
        item: u64,
        stream: &Stream<S>,
        work: impl FnOnce() -> Result<O>,
    ) -> Result<O> {
        if self.epoch.is_none() {
            self.tally.items += 1;
            return work();
        }
        let start = stream.timestamp()?;
        let output = work()?;
        self.pending.push_back((item, start, stream.timestamp()?));
        Ok(output)
    }

    /// Reads the marks that have been reached.
    pub(super) fn settle(&mut self) -> Result<()> {
        while let Some((item, start, end)) = self.pending.pop_front() {
            match end.try_reached().map_err(|refused| refused.error)? {
                Ok(end) => self.add(item, start, &end)?,
                Err(end) => {
                    self.pending.push_front((item, start, end));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits for the rest.
    pub(super) fn finish(mut self) -> Result<Tally> {
        while let Some((item, start, end)) = self.pending.pop_front() {
            let end = end.synchronize()?;
            self.add(item, start, &end)?;
        }
        Ok(self.tally)
    }

    fn add(&mut self, item: u64, start: Timestamp<D>, end: &Reached<D>) -> Result<()> {
        let Some(epoch) = self.epoch else { return Ok(()) };
        // Before `end` in one stream, so this does not wait.
        let start = start.synchronize()?;
        let start_ns = epoch.ns_until(&start)?;
        // The duration from the two marks themselves: far from the epoch a float holds it less exactly.
        let ns = (f64::from(end.elapsed_ms_since(&start)?) * 1e6).max(0.0) as u64;
        self.tally.add(item, start_ns, start_ns + ns);
        Ok(())
    }
}
