//! The host's clock: measured beside a GPU, modelled beside a simulated device.

use std::time::Instant;

use cuda_rt_runtime::Device;
use cuda_rt_runtime::simulator::Simulator;

/// Nanoseconds on the calling thread.
///
/// A simulated device models a clock for each thread, which its waits advance. What passes between
/// threads carries the time at which it was sent ([`catch_up`](Self::catch_up)), or a thread could
/// use a buffer before another had given it back.
#[derive(Clone, Debug)]
pub(super) enum HostClock {
    Measured(Instant),
    Modelled(Simulator),
}

impl HostClock {
    pub(super) fn of<D>(gpu: &Device<D>) -> Self {
        match gpu.simulator() {
            Some(simulator) => Self::Modelled(simulator.clone()),
            None => Self::Measured(Instant::now()),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        match self {
            // 2^64 ns are 584 years.
            Self::Measured(start) => start.elapsed().as_nanos() as u64,
            Self::Modelled(simulator) => simulator.host_now_ns(),
        }
    }

    /// The calling thread has received what was sent at `sent_ns`.
    pub(super) fn catch_up(&self, sent_ns: u64) {
        if let Self::Modelled(simulator) = self {
            simulator.spend_host_ns(sent_ns.saturating_sub(simulator.host_now_ns()));
        }
    }
}
