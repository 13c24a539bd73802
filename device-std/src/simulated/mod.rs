//! Kernels on the CPU: a launch runs as plain loops over its threads or blocks.

mod arguments;
mod loops;

pub use arguments::{SharedMemory, SimulatedLaunch, launch, output, scalar, slice};
pub use loops::{each_block, each_index1, each_index2, each_index3};
