//! [`measure`]: several ways to do one task, in alternating rounds of one run.

use std::error::Error;
use std::time::{Duration, Instant};

use crate::processor;

/// The result of what may fail.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How much of each result is compared with the expected values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The first element, in the rounds that are measured.
    First,
    /// Every element, before the measurement.
    Every,
}

impl Check {
    fn len(self, len: usize) -> usize {
        match self {
            Self::First => len.min(1),
            Self::Every => len,
        }
    }

    /// Writes an item into `data`.
    pub(crate) fn fill(self, data: &mut [f32], element: impl Fn(usize) -> f32) {
        let len = self.len(data.len());
        for (index, value) in data[..len].iter_mut().enumerate() {
            *value = element(index);
        }
    }

    /// Compares a result with the expected elements.
    pub(crate) fn compare(self, data: &[f32], expected: impl Fn(usize) -> f32) -> Outcome {
        let found = &data[..self.len(data.len())];
        match found
            .iter()
            .enumerate()
            .find(|(index, value)| **value != expected(*index))
        {
            None if !found.is_empty() => Ok(()),
            None => Err("a result is empty".into()),
            Some((index, value)) => {
                Err(format!("element {index} is {value} instead of {}", expected(index)).into())
            }
        }
    }
}

/// What one round of a way took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    /// From the first call to the last result on the host.
    pub(crate) wall: Duration,
    /// Processor time of all threads of the process.
    pub(crate) processor: Duration,
    /// The time from the request to the answer, for programs with requests.
    pub(crate) latencies: Vec<Duration>,
}

/// A running measurement of a [`Round`].
pub(crate) struct Watch {
    wall: Instant,
    processor: Duration,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let processor = processor::time();
        Self {
            wall: Instant::now(),
            processor,
        }
    }

    pub(crate) fn stop(self) -> Round {
        self.so_far()
    }

    /// The round until now.
    pub(crate) fn so_far(&self) -> Round {
        let wall = self.wall.elapsed();
        Round {
            wall,
            processor: processor::time().saturating_sub(self.processor),
            latencies: Vec::new(),
        }
    }
}

/// One way to run a program.
pub(crate) trait Way {
    /// Runs `items` items, and returns when all results are on the host and compared.
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round>;

    /// Enqueues some items while nothing else is enqueued, and then waits for them. Returns the
    /// host's time to enqueue one item, in ns, without the wait. `None` if the program waits for
    /// each item.
    fn burst(&mut self) -> Outcome<Option<f64>> {
        Ok(None)
    }
}

/// A way with its name.
pub(crate) type Named<'a> = (&'static str, Box<dyn Way + 'a>);

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Time for one program, with all ways.
    pub(crate) budget: Duration,
    /// Rounds that are measured even if the time is over.
    pub(crate) least: usize,
    /// Rounds that are enough.
    pub(crate) most: usize,
    /// Rounds before those that count.
    pub(crate) warm_up: usize,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    ItemsPerSecond,
    HostPerItem,
    ProcessorPerItem,
    LatencyMedian,
    LatencyHigh,
    PerCall,
}

impl Metric {
    /// The name and the unit in tables.
    pub(crate) fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::ItemsPerSecond => ("throughput", "items/s"),
            Self::HostPerItem => ("host time to enqueue an item", "ns"),
            Self::ProcessorPerItem => ("processor time of an item", "ns"),
            Self::LatencyMedian => ("median latency", "ns"),
            Self::LatencyHigh => ("99th percentile of latency", "ns"),
            Self::PerCall => ("host time of an operation", "ns"),
        }
    }
}

/// The figures of one metric of one way.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) metric: Metric,
    pub(crate) samples: Vec<f64>,
}

/// All figures of one way.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) way: &'static str,
    pub(crate) series: Vec<Series>,
}

impl Figures {
    pub(crate) fn new(way: &'static str) -> Self {
        let series = Vec::new();
        Self { way, series }
    }

    pub(crate) fn add(&mut self, metric: Metric, sample: f64) {
        match self.series.iter_mut().find(|series| series.metric == metric) {
            Some(series) => series.samples.push(sample),
            None => self.series.push(Series {
                metric,
                samples: vec![sample],
            }),
        }
    }

    pub(crate) fn samples(&self, metric: Metric) -> Option<&[f64]> {
        let series = self.series.iter().find(|series| series.metric == metric)?;
        Some(&series.samples)
    }

    fn note(&mut self, items: u32, mut round: Round, burst: Option<f64>) {
        let per_item = |time: Duration| time.as_nanos() as f64 / f64::from(items);
        self.add(
            Metric::ItemsPerSecond,
            f64::from(items) / round.wall.as_secs_f64(),
        );
        if let Some(host) = burst {
            self.add(Metric::HostPerItem, host);
        }
        self.add(Metric::ProcessorPerItem, per_item(round.processor));
        round.latencies.sort_unstable();
        let last = round.latencies.len().saturating_sub(1);
        for (metric, percent) in [(Metric::LatencyMedian, 50), (Metric::LatencyHigh, 99)] {
            if let Some(latency) = round.latencies.get((last * percent).div_ceil(100)) {
                self.add(metric, latency.as_nanos() as f64);
            }
        }
    }
}

/// Checks each way with every element, and then measures all ways in turn. Each way is first in a
/// round as often as last.
pub(crate) fn measure(ways: &mut [Named<'_>], items: u32, plan: Plan) -> Outcome<Vec<Figures>> {
    for (name, way) in &mut *ways {
        let checked = way.round(items, Check::Every);
        checked.map_err(|error| format!("{name}, with every element compared: {error}"))?;
    }
    let mut figures: Vec<_> = ways.iter().map(|(name, _)| Figures::new(name)).collect();
    let started = Instant::now();
    for number in 0..plan.warm_up + plan.most {
        if number >= plan.warm_up + plan.least && started.elapsed() > plan.budget {
            break;
        }
        for offset in 0..ways.len() {
            let at = (number + offset) % ways.len();
            let (name, way) = &mut ways[at];
            let burst = way.burst().map_err(|error| format!("{name}: {error}"))?;
            let round = way.round(items, Check::First);
            let round = round.map_err(|error| format!("{name}: {error}"))?;
            if number >= plan.warm_up {
                figures[at].note(items, round, burst);
            }
        }
    }
    Ok(figures)
}

/// Median and quartiles, by nearest rank.
pub(crate) fn quartiles(samples: &[f64]) -> [f64; 3] {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| sorted[((sorted.len() - 1) * quarter + 2) / 4])
}

/// The median of the ratios to `base`, round by round: a slow round slows all ways.
pub(crate) fn ratio(samples: &[f64], base: &[f64]) -> f64 {
    let ratios: Vec<_> = samples.iter().zip(base).map(|(one, base)| one / base).collect();
    quartiles(&ratios)[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_samples() {
        let samples = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(quartiles(&samples), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(&[7.0]), [7.0; 3]);
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        assert_eq!(ratio(&[2.0, 30.0, 4.0], &[1.0, 10.0, 4.0]), 2.0);
    }

    #[test]
    fn a_wrong_element_is_found() {
        assert!(
            Check::Every
                .compare(&[1.0, 2.0], |index| index as f32 + 1.0)
                .is_ok()
        );
        assert!(
            Check::Every
                .compare(&[1.0, 2.5], |index| index as f32 + 1.0)
                .is_err()
        );
        assert!(
            Check::First
                .compare(&[1.0, 2.5], |index| index as f32 + 1.0)
                .is_ok()
        );
        assert!(Check::First.compare(&[0.0], |index| index as f32 + 1.0).is_err());
        assert!(Check::First.compare(&[], |_| 0.0).is_err());
    }
}
