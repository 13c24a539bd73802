//! Tensors of other libraries, by DLPack: both ways, with version 1 of the structs and with the
//! older ones.
//!
//! An exchange is a handoff between two libraries. The importer tells the exporter its stream, and
//! the exporter makes that stream wait for its own work. So an imported tensor belongs to the
//! stream that was told, and moves on like any buffer:
//!
//! ```text
//!   import   Stream::dlpack_stream ──▶ x.__dlpack__(stream=..) ──▶ Stream::from_dlpack
//!            who waits: our stream, for the producer's work; the producer enqueues the wait
//!            the end: after our last use, as the host has seen, the producer's deleter runs
//!
//!   export   x.__dlpack__(stream=..) ──▶ consumer_stream ──▶ Stream::to_dlpack ──▶ into_raw
//!            who waits: the consumer's stream, for our work; Stream::to_dlpack enqueues the wait
//!            the end: the consumer calls our deleter; the memory is freed behind the work that the
//!            consumer's stream has then
//! ```
//!
//! The deleter carries no stream: DLPack does not say whether the consumer's work is over when it
//! is called. Consumers in Python call it when their last reference is gone (CuPy in
//! `__dealloc__`, NVIDIA/cudf#5212). Their work may still be pending then. So the deleter of this
//! crate records an event on the stream that the consumer named, and the memory is freed behind
//! this event. Neither the export nor the deleter blocks.
//!
//! [`DlpackShared`] is memory that is lent to several consumers, as objects of Python share theirs.
//! A consumer waits for those that have ended, and the memory is freed behind all.
//!
//! Page-locked memory is exchanged as `kDLCUDAHost`: [`PinnedBuffer::from_dlpack`],
//! [`PinnedBuffer::into_dlpack`]. The memory of a simulated device means nothing to a library that
//! calls CUDA.
//!
//! A consumer sees the structs of C, and the older struct of another function:
//!
//! ```
//! # cuda_rt::streams! { pub Compute; pub Theirs; }
//! use cuda_rt::interop::dlpack::{
//!     DL_CUDA, DL_FLOAT, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned,
//!     DLPackVersion, DLTensor, DlpackExport,
//! };
//! use cuda_rt::{DlpackError, Error};
//!
//! # let gpu = cuda_rt::Device::open_or_simulate()?;
//! # let (compute, theirs) = (gpu.stream::<Compute>()?, gpu.stream::<Theirs>()?);
//! let memory = compute.alloc_zeroed::<f32>(6)?;
//! // SAFETY: the stream lives on, and has all uses of the consumer.
//! let export: DlpackExport<_> = unsafe { compute.to_dlpack(memory, &[2, 3], theirs.raw()) }?;
//! let managed: *mut DLManagedTensorVersioned = export.into_raw();
//! // SAFETY: the tensor is live until its deleter is called.
//! let DLManagedTensorVersioned { version, dl_tensor, .. } = unsafe { &*managed };
//! assert_eq!(*version, DLPackVersion { major: 1, minor: 1 });
//! let DLTensor { device, dtype, ndim, .. } = dl_tensor;
//! assert_eq!(*device, DLDevice { device_type: DL_CUDA, device_id: 0 });
//! assert_eq!((*dtype, *ndim), (DLDataType::scalar(DL_FLOAT, 32), 2));
//! // SAFETY: the tensor was given away for this stream.
//! let refused = unsafe { theirs.from_dlpack::<i64>(managed) }; // its deleter has run
//! assert!(matches!(refused, Err(Error::Dlpack { why: DlpackError::Dtype { .. }, .. })));
//!
//! let memory = compute.alloc_zeroed::<f32>(6)?;
//! // SAFETY: as above.
//! let export = unsafe { compute.to_dlpack(memory, &[6], theirs.raw()) }?;
//! let managed: *mut DLManagedTensor = export.into_raw_unversioned();
//! // SAFETY: the tensor was given away for this stream.
//! let tensor = unsafe { theirs.from_dlpack_unversioned::<f32>(managed) }?;
//! assert_eq!(theirs.copy_to_vec(&tensor.elements)?, [0.0; 6]);
//! # Ok::<(), Error>(())
//! ```
//!
//! [`PinnedBuffer::from_dlpack`]: crate::PinnedBuffer::from_dlpack
//! [`PinnedBuffer::into_dlpack`]: crate::PinnedBuffer::into_dlpack

mod abi;
mod export;
mod import;
mod received;
mod shared;
mod tensor;

pub use abi::{
    DL_BFLOAT, DL_BOOL, DL_COMPLEX, DL_CPU, DL_CUDA, DL_CUDA_HOST, DL_CUDA_MANAGED, DL_FLOAT, DL_INT,
    DL_IS_COPIED, DL_READ_ONLY, DL_UINT, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor, Deleter, VERSION,
};
pub use export::DlpackExport;
pub use shared::DlpackShared;
pub use tensor::DlpackTensor;

use crate::error::{DlpackError, Error, Result};
use crate::memory::Element;
use crate::stream::Stream;
use crate::tag::{Live, StreamTag};
use cuda_rt_driver::RawStream;

/// An element that DLPack has a type for.
///
/// Integers and floats implement it; with the feature `half`, `half::f16` and `half::bf16` do too.
/// A program may implement it for a type of its own, for example for a complex number. A type with
/// another number of bits than its `DTYPE` does not build where it is exchanged.
///
/// ```
/// use cuda_rt::Element;
/// use cuda_rt::bytemuck::{Pod, Zeroable};
/// use cuda_rt::interop::dlpack::{DL_COMPLEX, DLDataType, DlpackElement};
///
/// #[derive(Clone, Copy, Pod, Zeroable, Element)]
/// #[repr(C)]
/// struct Complex {
///     re: f32,
///     im: f32,
/// }
///
/// impl DlpackElement for Complex {
///     const DTYPE: DLDataType = DLDataType::scalar(DL_COMPLEX, 64);
/// }
/// assert_eq!(Complex::DTYPE.to_string(), "complex64");
/// ```
#[diagnostic::on_unimplemented(
    message = "DLPack has no type for `{Self}`",
    label = "cannot be an element of an exchanged tensor",
    note = "integers and floats can; for a type of your own, implement `DlpackElement` with its `DTYPE`"
)]
pub trait DlpackElement: Element + Send + Sync {
    /// The type in DLPack.
    const DTYPE: DLDataType;
}

macro_rules! elements {
    ($($type:ty: $code:ident,)*) => { $(
        impl DlpackElement for $type {
            const DTYPE: DLDataType = DLDataType::scalar($code, 8 * size_of::<$type>() as u8);
        }
    )* };
}

elements! {
    u8: DL_UINT,
    u16: DL_UINT,
    u32: DL_UINT,
    u64: DL_UINT,
    usize: DL_UINT,
    i8: DL_INT,
    i16: DL_INT,
    i32: DL_INT,
    i64: DL_INT,
    isize: DL_INT,
    f32: DL_FLOAT,
    f64: DL_FLOAT,
}

#[cfg(feature = "half")]
elements! {
    half::f16: DL_FLOAT,
    half::bf16: DL_BFLOAT,
}

/// The type of `T`, which has the bits of `T`.
fn dtype_of<T: DlpackElement>() -> DLDataType {
    const {
        assert!(
            T::DTYPE.all_bits() == 8 * size_of::<T>(),
            "the `DTYPE` of a `DlpackElement` has the bits of its type"
        )
    };
    T::DTYPE
}

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// The number to pass for `stream` to a producer's `__dlpack__`: CUDA's handle of this stream.
    /// The producer then makes this stream wait for its own work. Calls nothing of the driver.
    ///
    /// As [`raw`](Self::raw), it makes the stream keep each record and wait from now on.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// assert_eq!(compute.dlpack_stream(), compute.raw().0 as i64);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn dlpack_stream(&self) -> i64 {
        self.raw().0 as i64
    }
}

/// The stream that a consumer names: `number` is the argument `stream` of its call of `__dlpack__`.
/// `None` and 1 are the legacy default stream (`CU_STREAM_LEGACY`); a number above 2 is a handle.
/// Calls nothing of the driver.
///
/// # Errors
/// [`DlpackError::StreamNumber`] for 0, which Python's standard forbids; for 2, the default stream
/// of a thread, because the consumer's work would end on another stream if another thread calls the
/// deleter; and for negative numbers: −1 asks for no order at all. [`DlpackShared::lend`] takes
/// these consumers: for 2 it records the end on the legacy default stream, and for −1 it lets the
/// host wait.
///
/// ```
/// use cuda_rt::driver::RawStream;
/// use cuda_rt::interop::dlpack::consumer_stream;
///
/// assert_eq!(consumer_stream(None)?, RawStream(1));
/// assert_eq!(consumer_stream(Some(0x7f00))?, RawStream(0x7f00));
/// let refused = consumer_stream(Some(2)).unwrap_err().to_string();
/// assert!(refused.contains("another stream in each thread"), "{refused}");
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub fn consumer_stream(number: Option<i64>) -> Result<RawStream> {
    match number.unwrap_or(1) {
        number @ (i64::MIN..=0 | 2) => Err(Error::Dlpack {
            during: "dlpack::consumer_stream",
            why: DlpackError::StreamNumber(number),
        }),
        handle => Ok(RawStream(handle as u64)),
    }
}
