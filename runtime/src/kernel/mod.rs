//! Kernels on the host: the description that `#[kernel]` makes ([`Kernel`]), grids, and typed
//! launches.

mod grid;
mod launch;
mod module;
mod occupancy;
mod output;
mod parameters;
mod signature;

pub use crate::tag::{ReadBy, WriteBy};
pub use cuda_rt_driver::{
    Kernel, KernelAttributes, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind, SuggestedBlock,
};
pub use device_std::Extent;
pub use grid::{Grid1, Grid2, Grid3};
#[doc(hidden)]
pub use occupancy::KernelDescription;
pub use occupancy::KernelHandle;
pub use output::KernelOutput;
#[doc(hidden)]
pub use parameters::{
    AtomicOutput, Fills, LastParameters, Output, OutputOf, Parameters, ReadArg, ReturnedOf, SharedArg,
    SharedArgOf, Slice, SliceOf, Value, ValueOf, WriteArg,
};
#[doc(hidden)]
pub use signature::{
    ArgumentsOf, Blocks, Position, PositionOf, ReturnOf, Signature, Simulate, Table, Threads1, Threads2,
    Threads3, describe, launch, launch_into,
};
