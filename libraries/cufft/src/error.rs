//! [`FftError`] and its parts.

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;

use cuda_rt_runtime::driver::DriverError;
use cuda_rt_runtime::{Error, OpenError, Refused};

/// The result of calls of this crate.
pub type Result<T, E = FftError> = std::result::Result<T, E>;

/// The error of a refused or failed call.
///
/// After [`Shape`](Self::Shape), [`Library`](Self::Library) and [`Version`](Self::Version) nothing
/// was enqueued. After the others a part of the call's work may be enqueued, in the order of the
/// stream; the memory still belongs to the stream.
///
/// `?` makes a [`cuda_rt::Error`](Error) of it where a closure must return one.
#[derive(Debug)]
#[non_exhaustive]
pub enum FftError {
    /// Sizes or places are wrong, or do not fit the memory. Nothing was enqueued.
    Shape {
        /// Our call.
        during: &'static str,
        /// Where the program made it.
        at: &'static Location<'static>,
        /// What is wrong.
        why: ShapeError,
    },
    /// cuFFT was not found, or lacks a function, or may make no call now. The message lists the
    /// files that were looked for.
    Library {
        /// Our call.
        during: &'static str,
        /// The reason.
        source: DriverError,
    },
    /// cuFFT is older than CUDA 11.
    Version {
        /// The file that was loaded.
        file: String,
        /// Its version, as cuFFT counts.
        version: i32,
    },
    /// A function of cuFFT returned an error.
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

impl fmt::Display for FftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { during, at, why } => {
                write!(f, "{during} ({}:{}): {why}", at.file(), at.line())
            }
            Self::Library { during, source } => write!(f, "{during}: {source}"),
            Self::Version { file, version } => write!(
                f,
                "Plan::new: {file} is version {version} of cuFFT: install CUDA 11 or later, \
                 or put the name of a newer file into CUDA_RT_CUFFT"
            ),
            Self::Status {
                during,
                function,
                status,
            } => write!(f, "{during}: {function} failed: {status}"),
            Self::NoSimulator => f.write_str(
                "Plan::new: the device is simulated: build cuda-handoff-cufft with its feature `simulator`",
            ),
            Self::Runtime(error) => error.fmt(f),
        }
    }
}

impl StdError for FftError {
    /// The source of the inner error, whose text is part of this error's text.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Library { source, .. } => source.source(),
            Self::Runtime(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Error> for FftError {
    fn from(error: Error) -> Self {
        Self::Runtime(error)
    }
}

impl From<OpenError> for FftError {
    fn from(error: OpenError) -> Self {
        Self::Runtime(error.into())
    }
}

impl<R> From<Refused<R>> for FftError {
    fn from(refused: Refused<R>) -> Self {
        Self::Runtime(refused.error)
    }
}

impl From<FftError> for Error {
    fn from(error: FftError) -> Self {
        match error {
            FftError::Runtime(error) => error,
            other => Self::Library(Box::new(other)),
        }
    }
}

/// A status that cuFFT returned (`cufftResult`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

impl Status {
    pub(crate) const SUCCESS: Self = Self(0);

    fn known(self) -> (&'static str, &'static str) {
        match self.0 {
            0 => ("CUFFT_SUCCESS", "the call succeeded"),
            1 => ("CUFFT_INVALID_PLAN", "the plan is no plan of cuFFT"),
            2 => ("CUFFT_ALLOC_FAILED", "memory ran out inside cuFFT"),
            3 => ("CUFFT_INVALID_TYPE", "the type of the transform is not supported"),
            4 => ("CUFFT_INVALID_VALUE", "an argument is out of range"),
            5 => ("CUFFT_INTERNAL_ERROR", "an internal operation failed"),
            6 => ("CUFFT_EXEC_FAILED", "the transform could not be enqueued"),
            7 => (
                "CUFFT_SETUP_FAILED",
                "cuFFT could not start: the driver may be older than this cuFFT needs",
            ),
            8 => (
                "CUFFT_INVALID_SIZE",
                "cuFFT has no transform of this size: choose other lengths, or a smaller batch",
            ),
            9 => ("CUFFT_UNALIGNED_DATA", "memory is misaligned"),
            10 => ("CUFFT_INCOMPLETE_PARAMETER_LIST", "an argument is missing"),
            11 => (
                "CUFFT_INVALID_DEVICE",
                "the plan was made for another GPU than the current one",
            ),
            12 => ("CUFFT_PARSE_ERROR", "an internal text could not be parsed"),
            13 => ("CUFFT_NO_WORKSPACE", "the plan has no workspace"),
            14 => ("CUFFT_NOT_IMPLEMENTED", "this cuFFT does not implement the call"),
            15 => ("CUFFT_LICENSE_ERROR", "a licence is missing"),
            16 => (
                "CUFFT_NOT_SUPPORTED",
                "this cuFFT or this GPU does not support this transform",
            ),
            17 => (
                "CUFFT_MISSING_DEPENDENCY",
                "cuFFT did not find a library that it needs",
            ),
            18 => ("CUFFT_NVRTC_FAILURE", "NVRTC failed inside cuFFT"),
            19 => ("CUFFT_NVJITLINK_FAILURE", "nvJitLink failed inside cuFFT"),
            20 => ("CUFFT_NVSHMEM_FAILURE", "NVSHMEM failed inside cuFFT"),
            _ => ("an unlisted status", "see the header of this cuFFT"),
        }
    }

    /// The name in cuFFT.
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

/// The memory of a transform: what it reads, or what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operand {
    Input,
    Output,
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "the input",
            Self::Output => "the output",
        })
    }
}

/// Sizes or places that are wrong. Each message says which ones, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// A length is 0, or the batch has no transform.
    Empty {
        /// What is 0.
        what: &'static str,
    },
    /// A stride or a distance is 0, so that different elements would have one place.
    Zero {
        /// The memory.
        operand: Operand,
        /// What is 0.
        what: &'static str,
    },
    /// A row or a slab of the memory is shorter than the signal's.
    Short {
        /// The memory.
        operand: Operand,
        /// What is too short.
        what: &'static str,
        /// Its length.
        given: usize,
        /// The signal's.
        least: usize,
    },
    /// More elements than an address space holds.
    TooLarge {
        /// The memory.
        operand: Operand,
    },
    /// Signals that are written overlap: two transforms would write one element at the same time.
    Overlap {
        /// The memory.
        operand: Operand,
        /// The distance of two elements that collides with others.
        step: usize,
        /// What has this distance.
        of: &'static str,
        /// Elements that the nearer ones span.
        span: usize,
    },
    /// The memory is too short.
    OutOfBounds {
        /// The memory.
        operand: Operand,
        /// Elements up to the last of the transforms.
        reach: usize,
        /// Elements of the memory.
        len: usize,
    },
    /// The memory does not begin at a multiple of the size of a complex number.
    Misaligned {
        /// The memory.
        operand: Operand,
        /// Bytes of a complex number.
        bytes: usize,
    },
    /// A transform in place whose output stands at other places than its input.
    NotInPlace,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { what } => write!(f, "the {what} is 0, and the least is 1: leave out the transform"),
            Self::Zero { operand, what } => {
                write!(f, "{operand}: the {what} is 0, and the least is 1")
            }
            Self::Short {
                operand,
                what,
                given,
                least,
            } => write!(
                f,
                "{operand}: {what} is {given}, and the signal has {least}: give at least as many"
            ),
            Self::TooLarge { operand } => write!(
                f,
                "{operand}: the lengths, strides and distances need more elements than an address space holds"
            ),
            Self::Overlap {
                operand,
                step,
                of,
                span,
            } => write!(
                f,
                "{operand}: {of} {step} elements apart overlap, and would be written at the same time: keep them at \
                 least {span} apart, or put signals side by side between the elements of one another"
            ),
            Self::OutOfBounds {
                operand,
                reach,
                len,
            } => write!(
                f,
                "{operand}: the transforms need {reach} elements, and the memory has {len}: pass more memory, or plan \
                 smaller transforms"
            ),
            Self::Misaligned { operand, bytes } => write!(
                f,
                "{operand}: it begins at no multiple of {bytes} bytes, which cuFFT demands of real numbers too: begin \
                 the slice at an even element, or copy it"
            ),
            Self::NotInPlace => f.write_str(
                "the plan's output stands at other places than its input: plan both with one `Placement`, or pass an \
                 output",
            ),
        }
    }
}

impl StdError for ShapeError {}

/// Makes the error of a call that refuses shapes. The place is that of the program's call.
#[track_caller]
pub(crate) fn refusal(during: &'static str) -> impl Fn(ShapeError) -> FftError + Copy {
    let at = Location::caller();
    move |why| FftError::Shape { during, at, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_named_and_explained() {
        let error = FftError::Status {
            during: "Plan::new",
            function: "cufftMakePlanMany64",
            status: Status(8),
        };
        assert_eq!(
            error.to_string(),
            "Plan::new: cufftMakePlanMany64 failed: CUFFT_INVALID_SIZE (8): cuFFT has no transform of this size: \
             choose other lengths, or a smaller batch"
        );
        assert_eq!(Status(99).name(), "an unlisted status");
    }

    #[test]
    fn an_error_of_the_runtime_stays_itself_in_a_closure() {
        let error = FftError::from(Error::SlotEmpty);
        assert!(matches!(Error::from(error), Error::SlotEmpty));
        let text = FftError::NoSimulator.to_string();
        assert_eq!(Error::from(FftError::NoSimulator).to_string(), text);
    }
}
