//! The host's clock: measured for a GPU, modelled for a simulated device.

use std::time::Instant;

use cuda_rt_runtime::Device;
use cuda_rt_runtime::simulator::Simulator;

/// A clock of the calling thread, in nanoseconds.
///
/// A simulated device models a clock for each thread, which the thread's waits advance. A value
/// that passes between threads carries the time at which it was sent, and the receiver catches up
/// with that time ([`catch_up`](Self::catch_up)). Otherwise a thread could use a buffer at a
/// modelled time before another thread gave it back.
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

    /// Notes that the calling thread has received a value that was sent at `sent_ns`.
    pub(super) fn catch_up(&self, sent_ns: u64) {
        if let Self::Modelled(simulator) = self {
            simulator.spend_host_ns(sent_ns.saturating_sub(simulator.host_now_ns()));
        }
    }
}
