//! The simulated device.

/// Handle to a simulated device, for tests: seeds, faults, modelled time.
#[derive(Debug)]
pub struct Simulator {}
