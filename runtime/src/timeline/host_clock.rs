//! The host's time, on the scale of the device's.

use std::time::Instant;

use cuda_rt_simulator::Simulator;

/// The host's time, on the scale of the device's.
#[derive(Debug)]
pub(super) enum HostClock {
    /// The modelled clock of the calling thread, and its time when the device's was 0.
    Modelled(Simulator, u64),
    /// Real time, and when the device's was 0.
    Real(Instant),
}

impl HostClock {
    pub(super) fn now_ns(&self) -> u64 {
        match self {
            Self::Modelled(simulator, zero_ns) => simulator.host_now_ns().saturating_sub(*zero_ns),
            Self::Real(zero) => zero.elapsed().as_nanos() as u64,
        }
    }
}
