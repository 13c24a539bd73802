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
//! - **launch a kernel that `#[kernel]` did not make**:
//!   [`Stream::foreign_kernel`](crate::Stream::foreign_kernel)
//! - **work on another library's stream**: [`Device::adopt_stream`](crate::Device::adopt_stream)
//! - **own memory that another library allocated, or give memory away**:
//!   [`DeviceBuffer::from_raw`](crate::DeviceBuffer::from_raw),
//!   [`into_raw`](crate::DeviceBuffer::into_raw)
//! - **own foreign memory until its last use is over, and give it back**:
//!   [`DeviceBuffer::from_foreign`](crate::DeviceBuffer::from_foreign),
//!   [`PinnedBuffer::from_foreign`](crate::PinnedBuffer::from_foreign)
//! - **use the crate `cust` together with this crate**: `interop::cust`, with the feature `cust`
//! - **exchange tensors with PyTorch, CuPy and other libraries**: [`dlpack`]
//! - **use memory that another library keeps**:
//!   [`DeviceSlice::from_raw_parts`](crate::DeviceSlice::from_raw_parts),
//!   [`PinnedSlice::from_raw_parts`](crate::PinnedSlice::from_raw_parts)

mod call;
#[cfg(feature = "cust")]
pub mod cust;
pub mod dlpack;
#[cfg(any(test, feature = "cust"))]
mod foreign_copy;
mod kernel;
mod memory;
mod stream;

pub use call::ForeignCall;
pub use kernel::ForeignLaunch;
pub use stream::Adopted;
