//! Using the crate [`cust`] together with this crate, one stream at a time. Needs the feature
//! `cust`.
//!
//! An object of cust becomes an object of this crate:
//!
//! - `Context`: [`Device::from_cust`](crate::Device::from_cust),
//!   [`Device::with_cust`](crate::Device::with_cust). By value; both crates use the device's
//!   primary context.
//! - `Stream`: [`Device::adopt_cust_stream`](crate::Device::adopt_cust_stream). Borrowed for a
//!   closure, so that nothing destroys it.
//! - `DeviceBuffer`: [`Stream::adopt_cust_buffer`](crate::Stream::adopt_cust_buffer) (`unsafe`). By
//!   value; cust's slices of it outlive it, and its safe calls do not wait.
//! - `LockedBuffer`: [`Device::adopt_cust_pinned`](crate::Device::adopt_cust_pinned). By value;
//!   copied, because cust's memory is unmapped with its context.
//! - `Module`: [`Device::adopt_cust_module`](crate::Device::adopt_cust_module) (`unsafe`). By
//!   value; the types say nothing about its kernels.
//!
//! An object of this crate is lent or given to cust:
//!
//! - `Stream`: [`ForeignCall::enqueue_cust`](crate::interop::ForeignCall::enqueue_cust) (`unsafe`).
//!   With the memory that cust's call reads and writes.
//! - `DeviceSlice`: [`DeviceSlice::cust_pointer`](crate::DeviceSlice::cust_pointer). An address;
//!   using it is not safe.
//! - `DeviceBuffer`: [`DeviceBuffer::into_cust`](crate::DeviceBuffer::into_cust). Copied: memory of
//!   a pool does not keep the promise of cust's type.
//!
//! [`CustDriver`] implements the runtime's driver with cust's objects, as far as cust has them.
//!
//! # Limits of cust 0.3.2
//!
//! Its last release is from February 2022. It links libcuda: a program with this feature does not
//! start on a machine without a driver. Its streams block on the default stream, whatever flags the
//! program gives, so work of other libraries on that stream delays them. Streams of this crate do
//! not block. Its `Stream::add_callback` takes closures that borrow, so it must not be used,
//! neither on streams of this crate nor on its own.

mod device;
mod memory;
mod module;
mod stream;

pub use cuda_rt_driver_cuda::cust::CustDriver;
pub use cust;
