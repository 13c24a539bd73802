//! Simulated devices, which are created together with their checker.

use std::sync::Arc;

use cuda_rt_driver::Driver;

use super::{Checked, Watch};

/// A simulated device. Several devices of one host share one order and one checker.
pub trait Simulates: Driver + Sized {
    /// The configuration of the simulation.
    type Config;
    /// The handle for tests and tools.
    type Handle;

    /// Makes a device on a new host, and the checker of that host.
    fn open(config: Self::Config) -> (Arc<Self>, Arc<Watch>);

    /// Makes another device of the same host.
    fn another(&self) -> (Arc<Self>, Arc<Watch>);

    /// The configuration of the simulation.
    fn config(&self) -> &Self::Config;

    /// The handle for tests and tools.
    fn handle(&self) -> &Self::Handle;
}

impl<D: Simulates> Checked<D> {
    /// Makes a device on a new host. The first device of the process installs a panic hook: it
    /// notes where a simulated kernel panicked, and then calls the previous hook.
    pub fn new(config: D::Config) -> Arc<Self> {
        let (device, watch) = D::open(config);
        Self::watching(device, watch)
    }

    /// Makes another device of the same host, with the same configuration. The two can copy between
    /// each other and wait for each other's events. A kernel that traps on one device loses all
    /// devices of the host.
    pub fn another(&self) -> Arc<Self> {
        let (device, watch) = self.inner().another();
        Self::watching(device, watch)
    }

    /// The configuration of the simulation.
    pub fn config(&self) -> &D::Config {
        self.inner().config()
    }

    /// The handle for tests and tools; always `Some`.
    pub fn simulator(&self) -> Option<&D::Handle> {
        Some(self.inner().handle())
    }
}
