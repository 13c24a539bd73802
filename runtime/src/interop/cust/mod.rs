//! The crate [`cust`] and this one in one program, a stream at a time. With the feature `cust`.
//!
//! | cust's | becomes ours | safe | |
//! |---|---|---|---|
//! | `Context` | [`Device::from_cust`](crate::Device::from_cust), [`Device::with_cust`](crate::Device::with_cust) | yes | by value; it is the device's primary context, which ours is too |
//! | `Stream` | [`Device::adopt_cust_stream`](crate::Device::adopt_cust_stream) | yes | borrowed for a closure, so that no one destroys it |
//! | `DeviceBuffer` | [`Stream::adopt_cust_buffer`](crate::Stream::adopt_cust_buffer) | no | by value; cust's slices of it outlive it, and its safe calls do not wait |
//! | `LockedBuffer` | [`Device::adopt_cust_pinned`](crate::Device::adopt_cust_pinned) | yes | by value; copied, as cust's goes with its context |
//! | `Module` | [`Device::adopt_cust_module`](crate::Device::adopt_cust_module) | no | by value; the types say nothing of what its kernels do |
//!
//! | ours | lent or given to cust | safe | |
//! |---|---|---|---|
//! | `Stream` | [`ForeignCall::enqueue_cust`](crate::interop::ForeignCall::enqueue_cust) | no | with the memory that cust's call reads and writes |
//! | `DeviceSlice` | [`DeviceSlice::cust_pointer`](crate::DeviceSlice::cust_pointer) | yes | an address; using it is not safe |
//! | `DeviceBuffer` | [`DeviceBuffer::into_cust`](crate::DeviceBuffer::into_cust) | yes | copied: memory of a pool is not what cust's type promises |
//!
//! [`CustDriver`] is the runtime's whole seam to the hardware made of cust's objects, as far as
//! cust has them.
//!
//! # What cust 0.3.2 is
//!
//! Its last release is of February 2022, and it links libcuda: a program with this feature does not
//! start where there is no driver. Its streams are blocking ones with respect to the default
//! stream, whatever flags are asked for, so work of other libraries on that stream holds them up;
//! ours are not. Its `Stream::add_callback` takes closures that borrow: not to be used with ours,
//! nor with its own.

mod device;
mod memory;
mod module;
mod stream;

pub use cuda_rt_driver_cuda::cust::CustDriver;
pub use cust;
