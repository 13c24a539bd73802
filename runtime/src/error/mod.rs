//! Errors of the typed API: one type for each family of operations whose errors a caller tells
//! apart, and [`Error`] for all of them.
//!
//! | family | type | |
//! |---|---|---|
//! | opening a device | [`OpenError`] | returned by what opens one: programs fall back on what it says |
//! | pinned memory | [`PinnedError`] | [`Error::Pinned`] |
//! | collectives | [`CollectiveError`] | [`Error::Collective`] |
//! | a launch's grid | [`GridError`] | [`Error::Grid`] |
//!
//! All but opening return [`Error`] itself: they stand in the middle of programs that have an error
//! type of their own, and at the end of closures that return `cuda_rt::Result`. What else can go
//! wrong there is the driver's, and is one variant for all. A launch has one error of its own
//! ([`Error::Launch`]), and so has the update of a graph ([`Error::NotAnUpdate`]), which gives back
//! those of its body besides: neither is a family.

mod collective;
mod grid;
mod open;
mod pinned;

pub use collective::CollectiveError;
pub use grid::GridError;
pub use open::OpenError;
pub use pinned::PinnedError;

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
    /// A device could not be opened.
    Open(OpenError),

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

    /// A length in bytes that no allocation of device memory can have.
    TooLarge {
        /// Our call.
        during: &'static str,
        /// Elements asked for.
        len: usize,
        /// Bytes of one.
        element_bytes: usize,
    },

    /// There is no pinned memory to be had, or none that can be used so.
    Pinned(PinnedError),

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

    /// There is no thread that waits for handoffs on behalf of tasks, or that runs closures: it
    /// could not be started, or the process was forked after it was.
    HostThread {
        /// The operating system's error.
        source: io::Error,
    },

    /// Devices or buffers that do not make a collective. Nothing was enqueued.
    Collective(CollectiveError),

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
    /// Whether the device is of no more use to this process: every later call that enqueues fails
    /// too, and so does every later call at all unless this is [`Unordered`](Self::Unordered).
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Unordered { .. }) || self.driver().is_some_and(DriverError::is_sticky)
    }

    /// The driver's error behind this one, if there is one.
    pub fn driver(&self) -> Option<&DriverError> {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } => Some(source),
            Self::Unordered { cause, .. } => Some(cause),
            Self::Open(error) => error.driver(),
            Self::LengthMismatch { .. }
            | Self::TooLarge { .. }
            | Self::Pinned(_)
            | Self::Grid(_)
            | Self::HostThread { .. }
            | Self::Collective(_)
            | Self::AlreadyRecording
            | Self::NotAdjacent
            | Self::NotAnUpdate { .. }
            | Self::SlotEmpty => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
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
            Self::Pinned(error) => error.fmt(f),
            Self::HostThread { source } => {
                write!(f, "the thread that waits for handoffs: {source}")
            }
            Self::Collective(error) => error.fmt(f),
            Self::AlreadyRecording => f.write_str(
                "the timeline of this device is being recorded already: finish or drop that recording first",
            ),
            Self::NotAdjacent => {
                f.write_str("these are not neighbouring parts of one block, the second right after the first")
            }
            Self::NotAnUpdate {
                during,
                operation,
                why,
            } => write!(
                f,
                "{during}: operation {operation} of the body {why}; capture another graph for other work"
            ),
            Self::SlotEmpty => {
                f.write_str("the slot is empty: an earlier operation on it failed and its bundle was lost")
            }
        }
    }
}

impl StdError for Error {
    /// What lies behind the errors whose text is in this one's: chains say nothing twice.
    /// [`driver`](Self::driver) gives the driver's.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } => source.source(),
            Self::Unordered { cause, .. } => cause.source(),
            Self::HostThread { source } => source.source(),
            Self::Open(error) => error.source(),
            Self::Pinned(error) => error.source(),
            Self::Collective(error) => error.source(),
            Self::Grid(error) => error.source(),
            Self::LengthMismatch { .. }
            | Self::TooLarge { .. }
            | Self::AlreadyRecording
            | Self::NotAdjacent
            | Self::NotAnUpdate { .. }
            | Self::SlotEmpty => None,
        }
    }
}

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
mod tests;
