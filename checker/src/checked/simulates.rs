//! Simulated devices, which are made together with their checker.

use std::sync::Arc;

use cuda_rt_driver::Driver;

use super::{Checked, Watch};

/// A simulated device. Several of one host share an order and a checker.
pub trait Simulates: Driver + Sized {
    /// What is simulated.
    type Config;
    /// The handle by which tests and tools look into it.
    type Handle;

    /// Makes a device, and the checker of its host.
    fn open(config: Self::Config) -> (Arc<Self>, Arc<Watch>);

    /// Makes another device of the same host.
    fn another(&self) -> (Arc<Self>, Arc<Watch>);

    /// What is simulated.
    fn config(&self) -> &Self::Config;

    /// The handle.
    fn handle(&self) -> &Self::Handle;
}

impl<D: Simulates> Checked<D> {
    /// Makes a device of a host of its own. The first one of the process installs a panic hook that
    /// notes where a simulated kernel panicked, and then does what the hook before it did.
    pub fn new(config: D::Config) -> Arc<Self> {
        let (device, watch) = D::open(config);
        Self::watching(device, watch)
    }

    /// Makes another device of the same host, with the same configuration: the two may copy between
    /// each other and wait for each other's events. A kernel that traps, on any, loses all of them.
    pub fn another(&self) -> Arc<Self> {
        let (device, watch) = self.inner().another();
        Self::watching(device, watch)
    }

    /// What is simulated.
    pub fn config(&self) -> &D::Config {
        self.inner().config()
    }

    /// The handle by which tests and tools look into it; always there.
    pub fn simulator(&self) -> Option<&D::Handle> {
        Some(self.inner().handle())
    }
}
