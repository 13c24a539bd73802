//! [`BlasError`] and its parts.

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;

use cuda_rt_runtime::driver::DriverError;
use cuda_rt_runtime::{Error, OpenError, Refused};

use crate::matrix::{Layout, Shape};

/// The result of calls of this crate.
pub type Result<T, E = BlasError> = std::result::Result<T, E>;

/// The error of a refused or failed call.
///
/// After [`Shape`](Self::Shape), [`Library`](Self::Library) and [`Version`](Self::Version) nothing
/// was enqueued. After the others a part of the call's work may be enqueued, in the order of the
/// stream; the memory still belongs to the stream.
///
/// `?` makes a [`cuda_rt::Error`](Error) of it where a closure must return one.
#[derive(Debug)]
#[non_exhaustive]
pub enum BlasError {
    /// Matrices or vectors do not fit their memory, each other, or what cuBLAS takes. Nothing was
    /// enqueued.
    Shape {
        /// Our call.
        during: &'static str,
        /// Where the program made it.
        at: &'static Location<'static>,
        /// What is wrong.
        why: ShapeError,
    },
    /// cuBLAS was not found, or lacks a function, or may make no call now. The message lists the
    /// files that were looked for.
    Library {
        /// Our call.
        during: &'static str,
        /// The reason.
        source: DriverError,
    },
    /// cuBLAS is older than CUDA 11.
    Version {
        /// The file that was loaded.
        file: String,
        /// Its version, as cuBLAS counts.
        version: i32,
    },
    /// A function of cuBLAS returned an error.
    Status {
        /// Our call.
        during: &'static str,
        /// The function.
        function: &'static str,
        /// What it returned.
        status: Status,
    },
    /// The crate was built without its feature `simulator`, and the device is simulated.
    NoSimulator,
    /// An error of the runtime.
    Runtime(Error),
}

impl fmt::Display for BlasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { during, at, why } => {
                write!(f, "{during} ({}:{}): {why}", at.file(), at.line())
            }
            Self::Library { during, source } => write!(f, "{during}: {source}"),
            Self::Version { file, version } => write!(
                f,
                "Blas::new: {file} is version {version} of cuBLAS: install CUDA 11 or later, \
                 or put the name of a newer file into CUDA_RT_CUBLAS"
            ),
            Self::Status {
                during,
                function,
                status,
            } => write!(f, "{during}: {function} failed: {status}"),
            Self::NoSimulator => f.write_str(
                "Blas::new: the device is simulated: build cuda-handoff-cublas with its feature `simulator`",
            ),
            Self::Runtime(error) => error.fmt(f),
        }
    }
}

impl StdError for BlasError {
    /// The source of the inner error, whose text is part of this error's text.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Library { source, .. } => source.source(),
            Self::Runtime(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Error> for BlasError {
    fn from(error: Error) -> Self {
        Self::Runtime(error)
    }
}

impl From<OpenError> for BlasError {
    fn from(error: OpenError) -> Self {
        Self::Runtime(error.into())
    }
}

impl<R> From<Refused<R>> for BlasError {
    fn from(refused: Refused<R>) -> Self {
        Self::Runtime(refused.error)
    }
}

impl From<BlasError> for Error {
    fn from(error: BlasError) -> Self {
        match error {
            BlasError::Runtime(error) => error,
            other => Self::Library(Box::new(other)),
        }
    }
}

/// A status that cuBLAS returned (`cublasStatus_t`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

impl Status {
    pub(crate) const SUCCESS: Self = Self(0);

    fn known(self) -> (&'static str, &'static str) {
        match self.0 {
            0 => ("CUBLAS_STATUS_SUCCESS", "the call succeeded"),
            1 => (
                "CUBLAS_STATUS_NOT_INITIALIZED",
                "cuBLAS could not start: the driver may be older than this cuBLAS needs",
            ),
            3 => (
                "CUBLAS_STATUS_ALLOC_FAILED",
                "memory ran out inside cuBLAS, or the workspace is too small",
            ),
            7 => ("CUBLAS_STATUS_INVALID_VALUE", "an argument is out of range"),
            8 => ("CUBLAS_STATUS_ARCH_MISMATCH", "the GPU cannot do this"),
            11 => ("CUBLAS_STATUS_MAPPING_ERROR", "GPU memory could not be reached"),
            13 => ("CUBLAS_STATUS_EXECUTION_FAILED", "a kernel could not be launched"),
            14 => ("CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"),
            15 => (
                "CUBLAS_STATUS_NOT_SUPPORTED",
                "this cuBLAS or this GPU does not support these types, layouts or alignments",
            ),
            16 => ("CUBLAS_STATUS_LICENSE_ERROR", "a licence is missing"),
            _ => ("an unlisted status", "see the header of this cuBLAS"),
        }
    }

    /// The name in cuBLAS.
    pub fn name(self) -> &'static str {
        self.known().0
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, meaning) = self.known();
        write!(f, "{name} ({}): {meaning}", self.0)
    }
}

/// The place of a matrix or vector in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the formulas")]
pub enum Operand {
    A,
    B,
    C,
    X,
    Y,
}

/// A matrix or vector that does not fit. Each message says which one, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// The matrix is larger than its memory.
    OutOfBounds {
        /// The matrix.
        operand: Operand,
        /// Elements up to the matrix' last; `None` if no memory has as many. For bytes, the last
        /// line counts up to a multiple of 4, because cuBLAS reads four at once.
        reach: Option<usize>,
        /// Elements of the memory.
        len: usize,
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
        /// Leading dimension.
        leading: usize,
        /// Matrices.
        count: usize,
    },
    /// The leading dimension is shorter than a row, or than a column of a column-major matrix.
    LeadingDimension {
        /// The matrix.
        operand: Operand,
        /// The leading dimension.
        leading: usize,
        /// The length of a row or column.
        least: usize,
        /// The matrix' layout.
        layout: Layout,
    },
    /// A number that cuBLAS cannot take: it counts with 31 bits.
    TooLarge {
        /// The matrix or vector.
        operand: Operand,
        /// What is counted.
        what: &'static str,
        /// The number.
        number: usize,
    },
    /// Two numbers of different operands must be equal.
    Mismatch {
        /// The matrices that these numbers are of: rows and columns.
        shapes: Vec<(Operand, usize, usize)>,
        /// The first.
        left: &'static str,
        /// Its number.
        left_is: usize,
        /// The second.
        right: &'static str,
        /// Its number.
        right_is: usize,
        /// What to do.
        advice: &'static str,
    },
    /// The matrix of a triangular system has not as many rows as columns.
    NotSquare {
        /// The matrix.
        operand: Operand,
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
    },
    /// The memory for a sum has another length than one element.
    NotOneElement {
        /// Its length.
        len: usize,
    },
    /// Matrices of a batch that is written overlap: products would write one element twice, at the
    /// same time.
    Overlap {
        /// The matrix.
        operand: Operand,
        /// The distance of two matrices.
        stride: usize,
        /// The least distance of matrices that stand behind each other.
        least: Option<usize>,
    },
    /// The inner dimension is 0, so there is nothing to multiply.
    NothingToMultiply,
    /// cuBLAS multiplies matrices of bytes only where rows and addresses are multiples of 4 bytes.
    Misaligned {
        /// The matrix.
        operand: Operand,
        /// What is no multiple of 4.
        what: &'static str,
    },
    /// The operation takes one matrix, and no batch.
    IsBatch {
        /// The matrix.
        operand: Operand,
    },
    /// Two matrices of a list differ in rows, columns, layout or leading dimension.
    NotAlike {
        /// The list.
        operand: Operand,
        /// The index of the first that differs from matrix 0.
        index: usize,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds {
                operand,
                reach,
                len,
                rows,
                columns,
                leading,
                count,
            } => {
                write!(f, "{operand:?}: ")?;
                if *count != 1 {
                    write!(f, "{count} matrices of ")?;
                }
                write!(f, "{rows} x {columns} elements with leading dimension {leading} ")?;
                match reach {
                    Some(reach) => write!(f, "need {reach} elements")?,
                    None => f.write_str("need more elements than an address space holds")?,
                }
                write!(
                    f,
                    ", and the memory has {len}: pass more memory or a smaller shape"
                )
            }
            Self::LeadingDimension {
                operand,
                leading,
                least,
                layout,
            } => {
                let line = match layout {
                    Layout::RowMajor => "row",
                    Layout::ColumnMajor => "column",
                };
                write!(
                    f,
                    "{operand:?}: the leading dimension {leading} is less than the {least} elements of a {line}, \
                     so {line}s would overlap: it is the distance of two {line}s"
                )
            }
            Self::TooLarge {
                operand,
                what,
                number,
            } => write!(
                f,
                "{operand:?}: {number} {what} are more than cuBLAS counts ({}): divide the work",
                i32::MAX
            ),
            Self::Mismatch {
                shapes,
                left,
                left_is,
                right,
                right_is,
                advice,
            } => {
                for (at, (operand, rows, columns)) in shapes.iter().enumerate() {
                    let before = if at == 0 { "" } else { ", " };
                    write!(f, "{before}{operand:?} is {rows} x {columns}")?;
                }
                let before = if shapes.is_empty() { "" } else { ": " };
                write!(
                    f,
                    "{before}{left} ({left_is}) must equal {right} ({right_is}); {advice}"
                )
            }
            Self::NotSquare {
                operand,
                rows,
                columns,
            } => write!(f, "{operand:?} must be square, and is {rows} x {columns}"),
            Self::NotOneElement { len } => write!(
                f,
                "the result has {len} elements, and the sum is one: pass a slice of one element, such as `&mut y[..1]`"
            ),
            Self::Overlap {
                operand,
                stride,
                least,
            } => {
                write!(
                    f,
                    "{operand:?}: matrices {stride} elements apart overlap, and would be written at the same time: \
                     keep them "
                )?;
                match least {
                    Some(least) => write!(f, "{least} elements apart")?,
                    None => f.write_str("further apart")?,
                }
                f.write_str(", or side by side within the leading dimension")
            }
            Self::NothingToMultiply => f.write_str(
                "the inner dimension is 0, so each sum is empty: fill or scale the output instead",
            ),
            Self::Misaligned { operand, what } => write!(
                f,
                "{operand:?}: the {what} is no multiple of 4 bytes, and cuBLAS multiplies bytes only then: \
                 pad rows to a multiple of 4"
            ),
            Self::IsBatch { operand } => write!(
                f,
                "{operand:?}: is a batch, and this operation takes one matrix: call it for each matrix"
            ),
            Self::NotAlike { operand, index } => write!(
                f,
                "{operand:?}: matrix {index} differs from matrix 0 in rows, columns, layout or leading dimension: \
                 pass matrices of one shape, without batches"
            ),
        }
    }
}

impl StdError for ShapeError {}

/// Makes the error of a call that refuses shapes. The place is that of the program's call.
#[track_caller]
pub(crate) fn refusal(during: &'static str) -> impl Fn(ShapeError) -> BlasError + Copy {
    let at = Location::caller();
    move |why| BlasError::Shape { during, at, why }
}

/// A matrix of a call, for a message.
pub(crate) type Named<'a> = (Operand, &'a Shape);

/// Two numbers that must be equal, of these matrices. `advice` says what to do if they are not.
pub(crate) fn equal(
    (left, left_is): (&'static str, usize),
    (right, right_is): (&'static str, usize),
    matrices: &[Named<'_>],
    advice: &'static str,
) -> Result<(), ShapeError> {
    match left_is == right_is {
        true => Ok(()),
        false => Err(mismatch((left, left_is), (right, right_is), matrices, advice)),
    }
}

/// The error of two numbers that are not equal.
#[cold]
pub(crate) fn mismatch(
    (left, left_is): (&'static str, usize),
    (right, right_is): (&'static str, usize),
    matrices: &[Named<'_>],
    advice: &'static str,
) -> ShapeError {
    let shape = |(operand, shape): &Named<'_>| (*operand, shape.rows, shape.columns);
    ShapeError::Mismatch {
        shapes: matrices.iter().map(shape).collect(),
        left,
        left_is,
        right,
        right_is,
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_named_and_explained() {
        let error = BlasError::Status {
            during: "Blas::gemm",
            function: "cublasGemmEx",
            status: Status(15),
        };
        assert_eq!(
            error.to_string(),
            "Blas::gemm: cublasGemmEx failed: CUBLAS_STATUS_NOT_SUPPORTED (15): this cuBLAS or this GPU does not \
             support these types, layouts or alignments"
        );
        assert_eq!(Status(99).name(), "an unlisted status");
    }

    #[test]
    fn an_error_of_the_runtime_stays_itself_in_a_closure() {
        let error = BlasError::from(Error::SlotEmpty);
        assert!(matches!(Error::from(error), Error::SlotEmpty));
        let text = BlasError::NoSimulator.to_string();
        assert_eq!(Error::from(BlasError::NoSimulator).to_string(), text);
    }
}
