//! [`Bench`]: measures work on a stream with events, with warm-up, medians and spread.

use std::fmt;

use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::tag::{Live, StreamTag};
use cuda_rt_timeline::Ns;

/// The settings of a measurement. By default 3 runs to warm up, then 20 samples of one run each.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// use cuda_rt::timeline::bench::Bench;
///
/// let compute = gpu.stream::<Compute>()?;
/// let mut data = compute.alloc_zeroed::<f32>(1 << 20)?;
/// let samples = Bench::new().samples(10).run(&compute, |compute| compute.fill(&mut data, 1.0))?;
/// println!("fill: {samples}");
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bench {
    warm_up: usize,
    samples: usize,
    repeats: usize,
}

impl Default for Bench {
    fn default() -> Self {
        Self {
            warm_up: 3,
            samples: 20,
            repeats: 1,
        }
    }
}

impl Bench {
    /// The default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of runs before the first sample, which fill caches, raise clocks and load
    /// code.
    pub fn warm_up(self, warm_up: usize) -> Self {
        Self { warm_up, ..self }
    }

    /// Sets the number of samples.
    ///
    /// # Panics
    /// If it is 0.
    pub fn samples(self, samples: usize) -> Self {
        assert!(samples > 0, "a median needs a sample");
        Self { samples, ..self }
    }

    /// Sets the number of runs in a sample, which is then their mean. Use it if the work is too
    /// short for the resolution of events (about half a microsecond), or if each launch should
    /// overlap the previous run.
    ///
    /// # Panics
    /// If it is 0.
    pub fn repeats(self, repeats: usize) -> Self {
        assert!(repeats > 0, "a sample needs a run");
        Self { repeats, ..self }
    }

    /// Measures `body`: the time from an event before it to an event after it, in the order of
    /// `stream`. Work on other streams counts only if `stream` acquires its results. Blocks the
    /// host after each sample, so that samples do not overlap.
    ///
    /// On a simulated device the times are modelled.
    ///
    /// # Errors
    /// The errors of `body`, and [`Error::Driver`].
    pub fn run<S: StreamTag, E: From<Error>>(
        &self,
        stream: &Stream<S>,
        mut body: impl FnMut(&Stream<S>) -> Result<(), E>,
    ) -> Result<Samples, E>
    where
        S::Device: Live,
    {
        for _ in 0..self.warm_up {
            body(stream)?;
        }
        stream.synchronize()?;
        let mut ns = Vec::with_capacity(self.samples);
        for _ in 0..self.samples {
            let start = stream.record_timed_event()?;
            for _ in 0..self.repeats {
                body(stream)?;
            }
            let end = stream.record_timed_event()?.synchronize()?;
            let ms = end.elapsed_ms_since(&start.synchronize()?)?;
            ns.push(f64::from(ms) * 1e6 / self.repeats as f64);
        }
        Ok(Samples::new(ns))
    }
}

/// The measured samples.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// use cuda_rt::timeline::bench::{Bench, Samples};
///
/// // Each sample is the mean of 10 runs, after 5 runs that warm up.
/// let bench = Bench::new().warm_up(5).samples(20).repeats(10);
/// let mut data = compute.alloc_zeroed::<f32>(1 << 16)?;
/// let samples = bench.run(&compute, |compute| compute.fill(&mut data, 1.0))?;
/// assert_eq!(samples.ns().len(), 20);
/// assert!(samples.min_ns() <= samples.median_ns() && samples.median_ns() <= samples.max_ns());
/// println!("90 % of the samples: at most {} ns", samples.quantile_ns(0.9));
///
/// // Times from elsewhere, for the same statistics.
/// let others = Samples::new(vec![1.0, 2.0, 3.0]);
/// assert_eq!((others.median_ns(), others.spread()), (2.0, 0.5));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// Ascending; at least one.
    ns: Vec<f64>,
}

impl Samples {
    /// Samples in ns from another measurement.
    ///
    /// # Panics
    /// If there is no sample, or a sample is NaN.
    pub fn new(mut ns: Vec<f64>) -> Self {
        assert!(!ns.is_empty(), "a median needs a sample");
        assert!(ns.iter().all(|ns| !ns.is_nan()), "a sample is a number");
        ns.sort_by(f64::total_cmp);
        Self { ns }
    }

    /// All samples in ns, ascending.
    pub fn ns(&self) -> &[f64] {
        &self.ns
    }

    /// The quantile `q`, from 0 (least) to 1 (greatest), in ns. Between two samples it is
    /// interpolated linearly.
    pub fn quantile_ns(&self, q: f64) -> f64 {
        let place = q.clamp(0.0, 1.0) * (self.ns.len() - 1) as f64;
        let (below, above) = (self.ns[place.floor() as usize], self.ns[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }

    /// The median, in ns.
    pub fn median_ns(&self) -> f64 {
        self.quantile_ns(0.5)
    }

    /// The least, in ns.
    pub fn min_ns(&self) -> f64 {
        self.quantile_ns(0.0)
    }

    /// The greatest, in ns.
    pub fn max_ns(&self) -> f64 {
        self.quantile_ns(1.0)
    }

    /// The distance of the quartiles, divided by the median: the relative width of the middle half
    /// of the samples.
    pub fn spread(&self) -> f64 {
        let width = self.quantile_ns(0.75) - self.quantile_ns(0.25);
        if width == 0.0 {
            0.0
        } else {
            width / self.median_ns()
        }
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |ns: f64| Ns(ns.max(0.0).round() as u64);
        write!(
            f,
            "median {}, spread {:.1} % ({} to {}, {} samples)",
            ns(self.median_ns()),
            self.spread() * 100.0,
            ns(self.min_ns()),
            ns(self.max_ns()),
            self.ns.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_samples() {
        let samples = Samples::new(vec![40.0, 10.0, 20.0, 30.0]);
        assert_eq!(
            (samples.min_ns(), samples.median_ns(), samples.max_ns()),
            (10.0, 25.0, 40.0)
        );
        assert_eq!(samples.quantile_ns(0.25), 17.5);
        assert_eq!(samples.spread(), 15.0 / 25.0);
        assert_eq!(Samples::new(vec![7.0]).spread(), 0.0);
        assert_eq!(Samples::new(vec![0.0, 0.0]).spread(), 0.0, "and not NaN");
        assert_eq!(
            samples.to_string(),
            "median 25 ns, spread 60.0 % (10 ns to 40 ns, 4 samples)"
        );
    }

    #[test]
    #[should_panic(expected = "needs a sample")]
    fn no_samples_have_no_median() {
        Samples::new(Vec::new());
    }
}
