//! Errors of the typed API.

use std::error::Error as StdError;
use std::{fmt, io};

use cuda_rt_driver::{DriverError, DriverResult};

/// What the typed API returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation was refused or failed.
///
/// Unless a variant says otherwise nothing was enqueued. A value that was handed in and is not part
/// of the error was freed if that was safe, and leaked if not; `try_release`, `try_acquire` and
/// their like give it back.
///
/// A message names our call, the driver's call, its code and what that means, and marks the codes
/// that are [sticky](Self::is_sticky):
///
/// ```text
/// Handoff::synchronize: cuEventSynchronize failed: CUDA_ERROR_LAUNCH_FAILED (719): a kernel trapped: …; the device is lost to this process
/// ```
///
/// CUDA reports a failed kernel at whichever call comes next, on any stream, so the call that is
/// named is seldom the one to blame; where it can, the message names the kernel.
///
/// # What is still usable
///
/// [`Unordered`](Self::Unordered) is sticky too: results can still be waited for, nothing more is
/// enqueued, and nothing is freed.
///
/// | | after a plain error | after a sticky one |
/// |---|---|---|
/// | idle pinned memory, results that were waited for | as before | as before: the mapping is ours, not the context's |
/// | pending handoffs | as before | waiting fails and gives them back, for ever: what they hold is never shown to the host |
/// | streams, buffers and graphs of the device | as before | every call fails, with the same code |
/// | dropping and leaking anything | frees in order | leaks device memory and pending pinned memory; never blocks or panics |
/// | new pinned memory | as before | fails, unless the pool has a block whose last use was seen over before |
/// | other GPUs, simulated devices | as before | as before |
/// | opening the device again | the same instance | the same lost instance; only a new process gets the GPU back |
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no GPU that CUDA can use.
    NoGpu(DriverError),

    /// The process has already fallen back to a simulated device for this tag, which is never
    /// replaced.
    AlreadySimulated {
        /// The device tag.
        tag: String,
    },

    /// A device tag is already bound to another GPU.
    AlreadyBound {
        /// The device tag.
        tag: &'static str,
        /// What it is bound to.
        bound: usize,
        /// What was asked for.
        asked: usize,
    },

    /// A driver call failed.
    Driver {
        /// Our call.
        during: &'static str,
        /// The driver's error.
        source: DriverError,
    },

    /// The device takes no more work: an ordering that its safety rests on could not be made, by
    /// the GPU or by the host, in an earlier [`Stream::lend`](crate::Stream::lend) or in this one.
    /// Sticky: what is dropped from then on is leaked.
    Unordered {
        /// Our call.
        during: &'static str,
        /// Why the ordering could not be made.
        cause: DriverError,
    },

    /// The two sides of a copy have different lengths.
    LengthMismatch {
        /// Our call.
        during: &'static str,
        /// Elements of the source.
        source_len: usize,
        /// Elements of the destination.
        destination_len: usize,
    },

    /// A length in bytes that no allocation can have.
    TooLarge {
        /// Our call.
        during: &'static str,
        /// Elements asked for.
        len: usize,
        /// Bytes of one.
        element_bytes: usize,
    },

    /// A kernel could not be launched.
    Launch {
        /// The kernel.
        kernel: &'static str,
        /// Where it is written.
        file: &'static str,
        /// Where it is written.
        line: u32,
        /// The driver's error.
        source: DriverError,
    },

    /// A grid that no device can launch.
    Grid(GridError),

    /// The operating system has no memory to page-lock.
    HostMemory {
        /// Bytes asked for.
        bytes: usize,
        /// The operating system's error.
        source: io::Error,
    },

    /// There is no thread that waits for handoffs on behalf of tasks, or that runs closures: it
    /// could not be started, or the process was forked after it was.
    HostThread {
        /// The operating system's error.
        source: io::Error,
    },

    /// More pinned memory than [`Device::set_pinned_limit`](crate::Device::set_pinned_limit)
    /// allows.
    PinnedLimit {
        /// Bytes asked for, rounded up to a size that the pool has.
        bytes: usize,
        /// Bytes that are page-locked, in use or with pending work.
        held_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },

    /// Pinned memory cannot move between a GPU and a simulated device.
    OtherBackend,

    /// Two ranks of a communicator are one device.
    SameDevice {
        /// The first of the two.
        first: usize,
        /// The other.
        second: usize,
    },

    /// What a rank gives to a collective has another length than it must, by that of rank 0.
    /// Nothing was enqueued.
    RankLength {
        /// Our call.
        during: &'static str,
        /// The rank.
        rank: usize,
        /// `"sends"` or `"receives"`.
        does: &'static str,
        /// Elements that it gives.
        len: usize,
        /// Elements that it must give.
        expected: usize,
    },

    /// A simulated device is made beside simulated ones only.
    NotSimulated,

    /// The device is being recorded already, and one recording at a time is.
    AlreadyRecording,

    /// Two parts that do not lie side by side in one block cannot be joined.
    NotAdjacent,

    /// A graph cannot be updated to what the body does now: other work than what was captured, or
    /// what CUDA cannot change.
    NotAnUpdate {
        /// Our call.
        during: &'static str,
        /// Which operation of the body, counted from 1: allocations, copies, fills, launches and
        /// foreign calls.
        operation: usize,
        /// What it was, and what it is.
        why: String,
    },

    /// A [`Slot`](crate::Slot) lost its bundle to an earlier error.
    SlotEmpty,
}

impl Error {
    /// Whether the device is of no more use to this process: every later call fails too.
    pub fn is_sticky(&self) -> bool {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } | Self::NoGpu(source) => {
                source.is_sticky()
            }
            Self::Unordered { .. } => true,
            _ => false,
        }
    }

    /// The driver's error behind this one, if there is one.
    pub fn driver(&self) -> Option<&DriverError> {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } | Self::NoGpu(source) => Some(source),
            Self::Unordered { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGpu(source) => write!(
                f,
                "no usable GPU: {source}; `Device::open_or_simulate` falls back to the simulated device"
            ),
            Self::AlreadySimulated { tag } => write!(
                f,
                "device `{tag}` is already simulated in this process, and a device is never replaced"
            ),
            Self::AlreadyBound { tag, bound, asked } => write!(
                f,
                "device `{tag}` is already bound to GPU {bound}, and cannot be bound to GPU {asked}"
            ),
            Self::Driver { during, source } => write!(f, "{during}: {source}"),
            Self::Unordered { during, cause } => write!(
                f,
                "{during}: the device takes no more work, for the end of a `Stream::lend` could not be ordered: {cause}"
            ),
            Self::LengthMismatch {
                during,
                source_len,
                destination_len,
            } => write!(
                f,
                "{during}: the source has {source_len} elements, the destination {destination_len}; pass ranges of equal length"
            ),
            Self::TooLarge {
                during,
                len,
                element_bytes,
            } => write!(
                f,
                "{during}: {len} elements of {element_bytes} bytes are more than an address space holds"
            ),
            Self::Launch {
                kernel,
                file,
                line,
                source,
            } => write!(f, "launch of `{kernel}` ({file}:{line}): {source}"),
            Self::Grid(error) => write!(f, "grid: {error}"),
            Self::HostMemory { bytes, source } => write!(f, "mapping {bytes} bytes of host memory: {source}"),
            Self::HostThread { source } => {
                write!(f, "the thread that waits for handoffs: {source}")
            }
            Self::PinnedLimit {
                bytes,
                held_bytes,
                limit_bytes,
            } => write!(
                f,
                "page-locking {bytes} more bytes: {held_bytes} of {limit_bytes} allowed are held; drop pinned buffers, or raise the limit"
            ),
            Self::OtherBackend => f.write_str(
                "pinned memory cannot move between a GPU and a simulated device: it is page-locked for one of them",
            ),
            Self::SameDevice { first, second } => write!(
                f,
                "ranks {first} and {second} are one device: a communicator has each device once"
            ),
            Self::RankLength {
                during,
                rank,
                does,
                len,
                expected,
            } => write!(
                f,
                "{during}: rank {rank} {does} {len} elements, and must {expected}, by those of rank 0"
            ),
            Self::NotSimulated => f.write_str(
                "a simulated device cannot be the peer of a GPU: open another GPU with `Device::with_gpu`",
            ),
            Self::AlreadyRecording => f.write_str(
                "the timeline of this device is being recorded already: finish or drop that recording first",
            ),
            Self::NotAdjacent => f.write_str(
                "these are not neighbouring parts of one block, the second right after the first",
            ),
            Self::NotAnUpdate {
                during,
                operation,
                why,
            } => write!(
                f,
                "{during}: operation {operation} of the body {why}; capture another graph for other work"
            ),
            Self::SlotEmpty => f.write_str(
                "the slot is empty: an earlier operation on it failed and its bundle was lost",
            ),
        }
    }
}

impl StdError for Error {
    /// What lies behind the errors whose text is in this one's: chains say nothing twice.
    /// [`driver`](Self::driver) gives the driver's.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } | Self::NoGpu(source) => {
                source.source()
            }
            Self::Unordered { cause, .. } => cause.source(),
            Self::HostMemory { source, .. } | Self::HostThread { source } => source.source(),
            _ => None,
        }
    }
}

/// What of a grid does not fit CUDA's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GridError {
    /// A block with no threads, or with more than a device can run.
    Block([u32; 3]),
    /// More blocks than fit along one axis.
    Blocks {
        /// `'x'`, `'y'` or `'z'`.
        axis: char,
        /// Blocks needed.
        blocks: u64,
        /// The most there can be.
        limit: u64,
    },
    /// More threads in all than an index can number.
    Threads([u64; 3]),
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block([x, y, z]) => write!(
                f,
                "a block of {x}x{y}x{z} threads; it needs 1 to 1024 in all, and at most 64 along z"
            ),
            Self::Blocks { blocks, axis, limit } => write!(
                f,
                "{blocks} blocks along {axis}, of at most {limit}; use larger blocks or several launches"
            ),
            Self::Threads([x, y, z]) => write!(f, "{x}x{y}x{z} threads are more than 2^63"),
        }
    }
}

impl StdError for GridError {}

/// Why a core takes no more work.
#[derive(Clone, Debug)]
pub(crate) struct Unordered {
    pub(crate) cause: DriverError,
    /// Whether it is the core of a capture, which ends with the capture: the device works on.
    pub(crate) graph: bool,
}

/// Adds our call to a driver's error.
pub(crate) trait During<T> {
    fn during(self, call: &'static str) -> Result<T>;
}

impl<T> During<T> for DriverResult<T> {
    fn during(self, during: &'static str) -> Result<T> {
        self.map_err(|source| Error::Driver { during, source })
    }
}

impl<T> During<T> for Result<T, Unordered> {
    fn during(self, during: &'static str) -> Result<T> {
        self.map_err(|Unordered { cause, graph }| {
            if graph {
                Error::Driver {
                    during,
                    source: cause,
                }
            } else {
                Error::Unordered { during, cause }
            }
        })
    }
}

/// An error, and the value that was handed in.
///
/// Its `Display` and its source are those of the error.
#[derive(Debug)]
pub struct Refused<R> {
    /// Why.
    pub error: Error,
    /// What was handed in, as it was.
    pub value: R,
}

impl<R> fmt::Display for Refused<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<R: fmt::Debug> StdError for Refused<R> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

impl<R> From<Refused<R>> for Error {
    fn from(refused: Refused<R>) -> Self {
        refused.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_rt_driver::ErrorCode;

    /// What a reporter prints: the error, and what lies behind it, one after another.
    fn chain(error: &(dyn StdError + 'static)) -> Vec<String> {
        let (mut texts, mut next) = (Vec::new(), Some(error));
        while let Some(error) = next {
            texts.push(error.to_string());
            next = error.source();
        }
        texts
    }

    #[test]
    fn a_chain_of_errors_says_nothing_twice() {
        let driver = DriverError::with_detail("cuEventRecord", ErrorCode::OUT_OF_MEMORY, "the detail");
        let (during, source) = ("Stream::fill", driver.clone());
        let nested = || io::Error::other(io::Error::other("the system's words"));
        let errors = [
            Error::NoGpu(driver.clone()),
            Error::Driver { during, source },
            Error::Unordered {
                during,
                cause: driver.clone(),
            },
            Error::Launch {
                kernel: "scale",
                file: "kernels.rs",
                line: 1,
                source: driver,
            },
            Error::HostMemory {
                bytes: 1,
                source: nested(),
            },
            Error::HostThread { source: nested() },
            Error::Grid(GridError::Threads([1, 2, 3])),
        ];
        for error in errors {
            let refused = Refused { error, value: () };
            for error in [&refused.error as &(dyn StdError + 'static), &refused] {
                let texts = chain(error);
                for (behind, text) in texts.iter().enumerate().skip(1) {
                    assert!(
                        !texts[..behind].iter().any(|before| before.contains(text)),
                        "{texts:?}"
                    );
                }
                assert!(texts.concat().matches("the detail").count() <= 1, "{texts:?}");
            }
        }
    }
}
