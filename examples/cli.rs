//! What the small examples have in common: where to run, and whether their times are measured or
//! modelled.

use std::error::Error;
use std::time::Duration;

use cuda_rt::{Device, Live};

pub use crate::choice::DeviceChoice;
use crate::choice::Times;

/// What an example returns.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Calls a function that takes any device with the one that was chosen:
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

/// The device, and how its times come about.
pub fn heading<D: Live>(gpu: &Device<D>) -> String {
    format!("{}; {}", gpu.properties().name, Times::of(gpu))
}

/// Milliseconds.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The median time of several rounds, after one to warm up; of one round where times are modelled,
/// and so the same each time.
///
/// # Errors
/// The first of `round`'s.
pub fn median<D: Live>(gpu: &Device<D>, mut round: impl FnMut() -> Outcome<Duration>) -> Outcome<Duration> {
    if gpu.is_simulated() {
        return round();
    }
    round()?;
    let mut times = (0..9).map(|_| round()).collect::<Outcome<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
