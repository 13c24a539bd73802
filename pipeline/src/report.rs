//! Reports of runs: the times of each stage, the bottleneck, and whether more buffers would help.

use std::fmt;
use std::time::Duration;

use super::advice::{self, Track};
use super::error::Stage;
use super::meter::{SAMPLES, Tally};

/// A report of a pipeline's run.
///
/// Events on the device time the stages on streams. The events stand around the work itself, so
/// waits for other stages are not counted. The host's clock times the closures of the host. On a
/// simulated device all times are modelled, and [`Display`](fmt::Display) says so; a closure of the
/// host then costs the time that it passes to
/// [`Simulator::spend_host_ns`](cuda_rt_runtime::simulator::Simulator::spend_host_ns).
///
/// ```
/// use cuda_rt::{Device, pipeline::Pipeline};
///
/// # cuda_rt::streams! { Upload; Compute; Download; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let gpu = Device::open_or_simulate()?;
/// let report = Pipeline::new(&gpu, 3)
///     .source(1 << 16, 0..20_u32, |_item, pinned: &mut [u32]| Ok(pinned.len()))
///     .upload::<Upload>()
///     .stage::<Compute>(|stream, _item, input, output| stream.copy(input, output))
///     .download::<Download>()
///     .sink(|_item, _data| Ok(()))
///     .run()?;
/// println!("{report}"); // all of the following, as a table
/// assert_eq!((report.items, report.buffers, report.stages.len()), (20, 3, 5));
/// let slowest = report.bottleneck().expect("the stages were timed");
/// let (name, busy) = (slowest.stage.kind.name(), slowest.utilisation());
/// println!("{name}: busy {:.0} % of its time", busy * 100.0);
/// println!("{:?} instead of {:?}", report.on_device(), report.serial());
/// println!("overlap {:.2}, efficiency {:.2}", report.overlap(), report.efficiency());
/// if let Some(more) = report.more_buffers() {
///     println!("{} buffers would save {:.0} %", more.buffers, more.saved * 100.0);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Number of items that the last stage has finished.
    pub items: u64,
    /// Number of slots at each boundary.
    pub buffers: usize,
    /// Time from the start of the first thread to the end of the last thread.
    pub wall: Duration,
    /// Whether the times are modelled.
    pub modelled: bool,
    /// Whether the pipeline was cancelled.
    pub cancelled: bool,
    /// All stages, in order.
    pub stages: Vec<StageReport>,
}

/// A report of one stage.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StageReport {
    /// The stage.
    pub stage: Stage,
    /// Number of items.
    pub items: u64,
    /// Number of threads that worked at once.
    pub workers: usize,
    /// Time spent on all items, by all workers; zero if nothing was timed.
    pub busy: Duration,
    /// The longest time that one item took.
    pub longest: Duration,
    /// Start of the first item, since the pipeline began.
    pub began: Duration,
    /// End of the last item, since the pipeline began.
    pub ended: Duration,
    samples: Vec<(u64, u64)>,
}

impl StageReport {
    pub(super) fn new(stage: Stage, workers: usize, mut tally: Tally) -> Self {
        tally.samples.sort_unstable();
        let (first, last) = tally.between_ns.unwrap_or_default();
        Self {
            stage,
            items: tally.items,
            workers,
            busy: Duration::from_nanos(tally.busy_ns),
            longest: Duration::from_nanos(tally.longest_ns),
            began: Duration::from_nanos(first),
            ended: Duration::from_nanos(last),
            samples: tally.samples,
        }
    }

    /// The share of the time from [`began`](Self::began) to [`ended`](Self::ended) in which it was
    /// busy, 0 to 1. Filling and draining of the pipeline are left out.
    pub fn utilisation(&self) -> f64 {
        share(self.bound(), self.ended.saturating_sub(self.began))
    }

    /// The least time in which it could have done its work: its busy time over its workers.
    fn bound(&self) -> Duration {
        self.busy / self.workers.max(1) as u32
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        return 0.0;
    }
    part.as_secs_f64() / whole.as_secs_f64()
}

/// Advice on buffers, from a replay of the first 1024 items with their times.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MoreBuffers {
    /// Number of buffers at each boundary: the fewest that do about as well as any number.
    pub buffers: usize,
    /// The share of the time that these buffers would have saved, 0 to 1.
    pub saved: f64,
}

impl Report {
    pub(super) fn new(
        items: u64,
        buffers: usize,
        wall_ns: u64,
        modelled: bool,
        cancelled: bool,
        stages: Vec<StageReport>,
    ) -> Self {
        Self {
            items,
            buffers,
            wall: Duration::from_nanos(wall_ns),
            modelled,
            cancelled,
            stages,
        }
    }

    /// The stage that took longest, with its workers taken into account. No number of buffers makes
    /// the pipeline faster than this stage. `None` if nothing was timed.
    pub fn bottleneck(&self) -> Option<&StageReport> {
        let longest = self.stages.iter().max_by_key(|stage| stage.bound())?;
        (!longest.bound().is_zero()).then_some(longest)
    }

    /// Time from the start of the first work on a stream to the end of the last: the wall time
    /// without the start of threads, and without the host's part of the first and the last item.
    /// Zero if nothing was timed.
    pub fn on_device(&self) -> Duration {
        let timed = || {
            let on_stream = |stage: &&StageReport| stage.stage.stream.is_some() && !stage.busy.is_zero();
            self.stages.iter().filter(on_stream)
        };
        let began = timed().map(|stage| stage.began).min().unwrap_or_default();
        let ended = timed().map(|stage| stage.ended).max().unwrap_or_default();
        ended.saturating_sub(began)
    }

    /// The time that all stages would take one after another.
    pub fn serial(&self) -> Duration {
        self.stages.iter().map(|stage| stage.busy).sum()
    }

    /// 1 − wall / serial. It is 0 if nothing overlaps, and below 0 if threads and waits cost more
    /// than overlap saves.
    pub fn overlap(&self) -> f64 {
        let serial = self.serial();
        if serial.is_zero() {
            return 0.0;
        }
        1.0 - share(self.wall, serial)
    }

    /// The bottleneck's time as a share of the wall time. At 1 this pipeline is as fast as it can
    /// be, apart from filling and draining.
    pub fn efficiency(&self) -> f64 {
        self.bottleneck()
            .map_or(0.0, |stage| share(stage.bound(), self.wall))
    }

    /// How many buffers would have helped; `None` if more would not help. Two are enough for stages
    /// of even speed. A stage that is slow at times needs a buffer for each item that arrives
    /// meanwhile.
    pub fn more_buffers(&self) -> Option<MoreBuffers> {
        let tracks: Vec<_> = self
            .stages
            .iter()
            .map(|stage| Track {
                ns: consecutive(&stage.samples),
                workers: stage.workers,
            })
            .collect();
        advice::more_buffers(&tracks, self.buffers).map(|(buffers, saved)| MoreBuffers { buffers, saved })
    }
}

/// The times of items 0, 1, …, up to the first item without a time.
fn consecutive(samples: &[(u64, u64)]) -> Vec<u64> {
    let whole = samples.iter().zip(0..SAMPLES);
    whole
        .take_while(|((item, _), index)| item == index)
        .map(|((_, ns), _)| *ns)
        .collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.modelled { "modelled" } else { "measured" };
        let ended = if self.cancelled { ", cancelled" } else { "" };
        writeln!(
            f,
            "{} items through {} stages, N = {}, in {:.3} ms ({how}{ended})",
            self.items,
            self.stages.len(),
            self.buffers,
            self.wall.as_secs_f64() * 1e3,
        )?;
        for stage in &self.stages {
            write!(
                f,
                "  {:22} {:10.3} ms busy, {:5.1} % from its first item to its last, longest {:.3} ms",
                stage.stage,
                stage.busy.as_secs_f64() * 1e3,
                stage.utilisation() * 100.0,
                stage.longest.as_secs_f64() * 1e3,
            )?;
            match stage.workers {
                0 | 1 => writeln!(f)?,
                workers => writeln!(f, ", {workers} threads")?,
            }
        }
        let Some(bottleneck) = self.bottleneck() else {
            return write!(f, "nothing was timed");
        };
        write!(
            f,
            "overlap {:.1} %; {} sets the pace, busy for {:.1} % of the whole run; ",
            self.overlap() * 100.0,
            bottleneck.stage,
            self.efficiency() * 100.0,
        )?;
        match self.more_buffers() {
            None => write!(f, "more buffers would not help"),
            Some(more) => write!(
                f,
                "{} buffers would save about {:.0} %",
                more.buffers,
                more.saved * 100.0
            ),
        }
    }
}
