//! [`DlpackError`]: tensors of DLPack that cannot be exchanged.

use std::error::Error as StdError;
use std::fmt;

use crate::interop::dlpack::{DLDataType, DLDevice, DLPackVersion};

/// A tensor of DLPack that cannot become memory of this crate, or cannot be made of it.
///
/// A tensor that was passed in has been ended: its deleter has run, on the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DlpackError {
    /// The pointer to the tensor is null.
    Null,
    /// The tensor has the layout of another major version. Only its deleter was used.
    Version(DLPackVersion),
    /// The memory is of another device.
    OtherDevice {
        /// The device of the tensor.
        found: DLDevice,
        /// The device that the call takes.
        expected: DLDevice,
    },
    /// The elements have another type.
    Dtype {
        /// The type of the tensor.
        found: DLDataType,
        /// The type of the Rust element.
        expected: DLDataType,
    },
    /// Elements of less than a byte take a byte each (DLPack 1.1), and the buffer's are packed.
    Padded(DLDataType),
    /// The consumer must not write the tensor.
    ReadOnly,
    /// A number of dimensions, or an extent, that no tensor has.
    Extent {
        /// The dimension, counted from 0; `None` if the number of dimensions is wrong.
        dimension: Option<usize>,
        /// Its extent, or the number of dimensions.
        extent: i64,
    },
    /// The elements are not compact in row-major order.
    Strides {
        /// The last dimension whose stride is wrong, counted from 0.
        dimension: usize,
        /// Its stride, in elements.
        stride: i64,
        /// The stride in row-major order.
        expected: i64,
    },
    /// The elements are more than an address space holds.
    TooLarge,
    /// There are elements, but no address of them.
    NoAddress,
    /// The first element is not aligned for its Rust type.
    Misaligned {
        /// Bytes behind a place where an element may begin.
        misaligned_by: usize,
        /// The alignment of the Rust type in bytes.
        align: usize,
    },
    /// The shape has another number of elements than the buffer.
    Shape {
        /// Elements of the shape; `None` if DLPack cannot count them, or the extents.
        elements: Option<usize>,
        /// Elements of the buffer.
        len: usize,
    },
    /// A number that a consumer may pass for its stream, and for which no order can be made.
    StreamNumber(i64),
}

impl fmt::Display for DlpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("there is no tensor: the pointer is null"),
            Self::Version(DLPackVersion { major, minor }) => write!(
                f,
                "the tensor has version {major}.{minor} of DLPack, and this crate reads version 1; \
                 ask the producer for `max_version=(1, 1)`"
            ),
            Self::OtherDevice { found, expected } => {
                write!(f, "the tensor is {found}, and the call takes {expected}")
            }
            Self::Dtype { found, expected } => write!(
                f,
                "the elements of the tensor are {found}, and those of the buffer {expected}; \
                 convert it first, for example with `x.astype(\"{expected}\")` or `x.to(torch.{expected})`"
            ),
            Self::Padded(found) => write!(
                f,
                "each number of the {found} elements takes a byte in the tensor, and those of the buffer are packed"
            ),
            Self::ReadOnly => f.write_str(
                "the tensor is read-only, and the owner of a buffer may write it; \
                 pass a copy, for example `x.copy()` or `x.clone()`",
            ),
            Self::Extent {
                dimension: None,
                extent,
            } => write!(f, "the tensor has {extent} dimensions, or no shape"),
            Self::Extent {
                dimension: Some(dimension),
                extent,
            } => write!(f, "dimension {dimension} of the tensor has {extent} elements"),
            Self::Strides {
                dimension,
                stride,
                expected,
            } => write!(
                f,
                "the tensor is not compact in row-major order: the stride of dimension {dimension} is {stride}, \
                 not {expected}; make it contiguous first, with `numpy.ascontiguousarray(x)` or `x.contiguous()`"
            ),
            Self::TooLarge => f.write_str("the elements of the tensor are more than an address space holds"),
            Self::NoAddress => f.write_str("the tensor has elements, but no address of them"),
            Self::Misaligned { misaligned_by, align } => write!(
                f,
                "the tensor begins {misaligned_by} bytes behind a multiple of {align} bytes, where an element may begin; \
                 pass a copy, for example `x.copy()` or `x.clone()`"
            ),
            Self::Shape {
                elements: Some(elements),
                len,
            } => write!(f, "the shape has {elements} elements, the buffer {len}"),
            Self::Shape { elements: None, len } => write!(
                f,
                "the shape has more elements than a number counts, or an extent that DLPack cannot hold; the buffer has {len}"
            ),
            Self::StreamNumber(0) => f.write_str(
                "the number 0 names no stream, because it may mean two; pass 1 for the legacy default stream",
            ),
            Self::StreamNumber(2) => f.write_str(
                "the number 2 means another stream in each thread, so nothing says where the consumer's work ends; \
                 pass a stream of its own",
            ),
            Self::StreamNumber(number) => write!(
                f,
                "the number {number} names no stream, so nothing could wait for the producer's work; \
                 pass the handle of a stream"
            ),
        }
    }
}

impl StdError for DlpackError {}
