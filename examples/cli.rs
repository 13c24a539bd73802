//! Common parts of the small examples: the choice of the device, and times that are measured or
//! modelled.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use cuda_rt::{Device, Live};
use indicatif::{ProgressBar, ProgressStyle};

pub use crate::choice::DeviceChoice;
use crate::choice::Times;

/// The result of an example.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Calls a function that is generic over the device with the chosen device:
/// `on_device!(choice, |gpu| run(gpu, &args))`.
#[macro_export]
macro_rules! on_device {
    ($choice:expr, |$gpu:ident| $run:expr) => {
        match $choice {
            $crate::cli::DeviceChoice::Auto => {
                let $gpu = &cuda_rt::Device::open_or_simulate()?;
                $run
            }
            $crate::cli::DeviceChoice::Cuda => {
                let $gpu = &cuda_rt::Device::open()?;
                $run
            }
            $crate::cli::DeviceChoice::Sim => {
                cuda_rt::Device::simulated(cuda_rt::simulator::SimConfig::default(), |gpu| {
                    let $gpu = &gpu;
                    $run
                })?
            }
        }
    };
}

/// Prints the device, and whether its times are measured or modelled.
pub fn heading<D: Live>(gpu: &Device<D>) -> String {
    format!("{}; {}", gpu.properties().name, Times::of(gpu))
}

/// Converts a time to milliseconds.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A progress bar of steps on standard error, if standard error is a terminal. It moves between
/// steps only, so that it takes no time from what a step measures.
#[derive(Debug)]
pub struct Steps(ProgressBar);

impl Steps {
    /// A bar of this many steps.
    ///
    /// # Panics
    /// Never: the template is valid.
    pub fn new(steps: u64) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} done, now {msg}");
        Self(ProgressBar::new(steps).with_style(style.expect("a valid template")))
    }

    /// Runs one step.
    pub fn step<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        self.0.set_message(name.to_owned());
        self.0.tick();
        let done = work();
        self.0.inc(1);
        done
    }

    /// Prints a line to standard output, above the bar.
    pub fn line(&self, line: impl Display) {
        self.0.suspend(|| println!("{line}"));
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The median time of several rounds, after a round to warm up. Modelled times are the same in each
/// round, so one round is enough for them.
///
/// # Errors
/// The first error of `round`.
pub fn median<D: Live>(gpu: &Device<D>, mut round: impl FnMut() -> Outcome<Duration>) -> Outcome<Duration> {
    if gpu.is_simulated() {
        return round();
    }
    round()?;
    let mut times = (0..9).map(|_| round()).collect::<Outcome<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
