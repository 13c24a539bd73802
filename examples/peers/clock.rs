//! A clock: measured time for GPUs, modelled time for simulated devices.

use std::time::{Duration, Instant};

use cuda_rt::{Device, Live};

/// The start of a time.
pub(crate) enum Clock {
    Measured(Instant),
    Modelled(u64),
}

impl Clock {
    pub(crate) fn start<D: Live>(gpu: &Device<D>) -> Self {
        match gpu.simulator() {
            Some(simulator) => Self::Modelled(simulator.host_now_ns()),
            None => Self::Measured(Instant::now()),
        }
    }

    pub(crate) fn elapsed<D: Live>(&self, gpu: &Device<D>) -> Duration {
        match (self, gpu.simulator()) {
            (Self::Modelled(start), Some(simulator)) => Duration::from_nanos(simulator.host_now_ns() - start),
            (Self::Measured(start), _) => start.elapsed(),
            (Self::Modelled(_), None) => unreachable!("a device stays what it is"),
        }
    }
}

/// The shortest of several rounds, after a round to warm up. Modelled times are the same in each
/// round, so one round is enough for them.
pub(crate) fn best<D: Live, E>(
    gpu: &Device<D>,
    mut round: impl FnMut() -> Result<Duration, E>,
) -> Result<Duration, E> {
    let mut best = round()?;
    if !gpu.is_simulated() {
        best = round()?;
        for _ in 0..6 {
            best = best.min(round()?);
        }
    }
    Ok(best)
}

/// A rate in GB/s.
pub(crate) fn gb_per_s(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}
