//! Common parts of the small examples: the choice of the device, and times that are measured or
//! modelled.

use std::error::Error;
use std::time::Duration;

use cuda_rt::{Device, Live};

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
