//! Kernels on the host: the description that `#[kernel]` makes ([`Kernel`]), grids, and typed
//! launches.
//!
//! All parameters of a kernel take 4096 bytes at most, by value. This kernel does not build; a
//! large table is passed in a buffer:
//!
//! ```compile_fail,E0080
//! use device_std::prelude::*;
//! # device_std::kernel_module!(concat!(
//! #     env!("CARGO_MANIFEST_DIR"),
//! #     "/../cuda-rt/tests/conformance/kernels.ptx"
//! # ));
//! # cuda_rt::streams! { pub Compute; }
//!
//! #[kernel]
//! fn look_up(i: Index1, table: [u8; 4096]) -> u8 {
//!     table[i.get() % 4096]
//! }
//!
//! # fn main() -> cuda_rt::Result<()> {
//! let gpu = cuda_rt::Device::open_or_simulate()?;
//! let compute = gpu.stream::<Compute>()?;
//! let output = compute.alloc_uninit(1)?;
//! look_up(&compute, cuda_rt::Grid1::covering(1), [0; 4096], output)?;
//! # Ok(())
//! # }
//! ```
//!
//! A generic kernel has a typed launch for each instance that it lists, and an entry in the PTX. An
//! instance that is not listed does not compile ([H33](crate::hazards#h33)). The list chooses which
//! instances the PTX has; everything that makes a launch safe is per instance, as for a kernel that
//! is not generic: the name of the entry, its tables, the checks of its types, and its simulation.
//!
//! ```standalone_crate
//! use std::ops::Mul;
//!
//! use cuda_rt::{Device, Grid1};
//! use device_std::prelude::*;
//! # cuda_rt::streams! { Compute; }
//! # device_std::kernel_module!(concat!(
//! #     env!("CARGO_MANIFEST_DIR"),
//! #     "/../cuda-rt/tests/conformance/kernels.ptx"
//! # ));
//!
//! #[kernel(instances = [f32, f64], handle = Scale)]
//! pub fn scale<T: Element + Mul<Output = T>>(
//!     i: Index1,
//!     input: &[T],
//!     mut output: PerThread<T>,
//!     factor: T,
//! ) {
//!     if let Some(out) = output.get_mut(i) {
//!         *out = input[i.get()] * factor;
//!     }
//! }
//!
//! # fn main() -> cuda_rt::Result<()> {
//! # Device::simulated(Default::default(), |gpu| {
//! let compute = gpu.stream::<Compute<_>>()?;
//! let input = compute.alloc_zeroed::<f64>(1000)?;
//! let mut output = compute.alloc_zeroed::<f64>(1000)?;
//! // The arguments choose the instance, or the caller names it; the stream is inferred.
//! scale(&compute, Grid1::covering(1000), &input, &mut output, 0.5)?;
//! scale::<f64, _>(&compute, Grid1::covering(1000), &input, &mut output, 0.5)?;
//! let attributes = gpu.kernel_attributes::<Scale<f32>>()?;
//! # let _ = attributes;
//! # Ok(())
//! # })?
//! # }
//! ```

mod grid;
mod instance;
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
pub use instance::KernelInstance;
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
