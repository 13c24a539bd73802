//! [`HostClock`]: the host's time, with the zero of the device's clock.

use std::time::Instant;

use cuda_rt_simulator::Simulator;

/// The host's time, with the zero of the device's clock.
#[derive(Debug)]
pub(super) enum HostClock {
    /// The modelled clock of the calling thread, and its time at the device's zero.
    Modelled(Simulator, u64),
    /// Real time, and the instant of the device's zero.
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
