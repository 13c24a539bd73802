//! Kernels on the CPU: the whole launch as plain loops.

mod arguments;
mod loops;

pub use arguments::{SharedMemory, SimulatedLaunch, launch, output, scalar, slice};
pub use loops::{each_block, each_index1, each_index2, each_index3};
