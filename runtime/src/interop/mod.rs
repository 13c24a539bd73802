//! Doors to code that is not ours: libraries on the CUDA driver API, kernels of other compilers,
//! streams and memory of other owners.
//!
//! A handle or an address is a number, and safe to ask for ([`Stream::raw`](crate::Stream::raw),
//! [`DeviceSlice::address`](crate::DeviceSlice::address)). What lets such a number act, or makes
//! one of our types of it, is `unsafe`, and states as obligations what the type promises from then
//! on. The types stay honest on both sides of a door: buffers that a foreign call uses are borrowed
//! as the call uses them, and what is adopted moves by handoffs as everything does.
//!
//! | to | use |
//! |---|---|
//! | enqueue a library's work on our stream | [`Stream::foreign`](crate::Stream::foreign) |
//! | launch a kernel that `#[kernel]` did not make | [`Stream::foreign_kernel`](crate::Stream::foreign_kernel) |
//! | work on someone else's stream | [`Device::adopt_stream`](crate::Device::adopt_stream) |
//! | own memory that someone else allocated, or give ours away | [`DeviceBuffer::from_raw`](crate::DeviceBuffer::from_raw), [`into_raw`](crate::DeviceBuffer::into_raw) |
//! | own memory until its last use is over, and give it back | [`DeviceBuffer::from_foreign`](crate::DeviceBuffer::from_foreign), [`PinnedBuffer::from_foreign`](crate::PinnedBuffer::from_foreign) |
//! | use the crate `cust` and this one together | `interop::cust`, with the feature `cust` |
//! | use memory that someone else keeps | [`DeviceSlice::from_raw_parts`](crate::DeviceSlice::from_raw_parts), [`PinnedSlice::from_raw_parts`](crate::PinnedSlice::from_raw_parts) |

mod call;
#[cfg(feature = "cust")]
pub mod cust;
#[cfg(any(test, feature = "cust"))]
mod foreign_copy;
mod kernel;
mod memory;
mod stream;

pub use call::ForeignCall;
pub use kernel::ForeignLaunch;
pub use stream::Adopted;
