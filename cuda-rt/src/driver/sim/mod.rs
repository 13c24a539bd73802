//! The simulated device.
use super::Driver;
use std::sync::Arc;
/// Handle
#[derive(Debug)]
pub struct Simulator {}
/// c
#[derive(Clone, Debug, Default)]
pub struct SimConfig {}
impl SimConfig {
    /// s
    pub fn seed(self, _s: u64) -> Self {
        self
    }
}
/// d
pub struct SimDriver;
impl SimDriver {
    /// n
    pub fn new(_c: SimConfig) -> Arc<dyn Driver> {
        unimplemented!()
    }
}
