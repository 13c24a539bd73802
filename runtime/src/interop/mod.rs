//! Interoperability with other code: libraries on the CUDA driver API, kernels of other compilers,
//! streams and memory of other owners.
//!
//! A handle or an address is a number, and safe to ask for ([`Stream::raw`](crate::Stream::raw),
//! [`DeviceSlice::address`](crate::DeviceSlice::address)). A function that uses this number, or
//! makes a value of this crate from it, is `unsafe`. Its contract states the promises of the type.
//! The types stay correct on both sides: a foreign call borrows its buffers as it uses them, and
//! adopted memory moves through handoffs like all memory.
//!
//! - **enqueue a library's work on a stream of this crate**:
//!   [`Stream::foreign`](crate::Stream::foreign)
//! - **load PTX, cubins and fatbins at run time, and launch their kernels with typed arguments**:
//!   [`foreign_kernel!`](crate::foreign_kernel), [`ForeignModule`]
//! - **compile CUDA C++ at run time**: `Nvrtc`, with the feature `cuda`
//! - **describe a kernel and its arguments by hand**:
//!   [`Stream::foreign_kernel`](crate::Stream::foreign_kernel)
//! - **work on another library's stream**: [`Device::adopt_stream`](crate::Device::adopt_stream)
//! - **own memory that another library allocated, or give memory away**:
//!   [`DeviceBuffer::from_raw`](crate::DeviceBuffer::from_raw),
//!   [`into_raw`](crate::DeviceBuffer::into_raw)
//! - **own foreign memory until its last use is over, and give it back**:
//!   [`DeviceBuffer::from_foreign`](crate::DeviceBuffer::from_foreign),
//!   [`PinnedBuffer::from_foreign`](crate::PinnedBuffer::from_foreign)
//! - **use the crate `cust` together with this crate**: `interop::cust`, with the feature `cust`
//! - **exchange tensors with PyTorch, CuPy and other libraries**: [`dlpack`]; from Python: the
//!   package `cuda-handoff-python`
//! - **order a stream behind another library's stream**:
//!   [`Stream::wait_for_foreign`](crate::Stream::wait_for_foreign)
//! - **use memory that another library keeps**:
//!   [`DeviceSlice::from_raw_parts`](crate::DeviceSlice::from_raw_parts),
//!   [`PinnedSlice::from_raw_parts`](crate::PinnedSlice::from_raw_parts)

mod call;
#[cfg(feature = "cust")]
pub mod cust;
pub mod dlpack;
#[cfg(any(test, feature = "cust"))]
mod foreign_copy;
pub(crate) mod foreign_kernels;
mod kernel;
mod memory;
mod stream;

pub use call::ForeignCall;
#[doc(hidden)]
pub use foreign_kernels::{
    __length, Declared, ForeignParameter, ForeignParameters, Packed, Read, Value, Write,
};
#[cfg(feature = "cuda")]
pub use foreign_kernels::{CppStandard, Nvrtc, NvrtcError, NvrtcOptions};
pub use foreign_kernels::{
    ForeignError, ForeignFunction, ForeignGrid, ForeignKernel, ForeignModule, ImageError,
};
pub use kernel::ForeignLaunch;
pub use stream::Adopted;
