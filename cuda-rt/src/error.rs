//! Errors of the typed API.

use std::io;

use crate::driver::{DriverError, DriverResult};

/// What the typed API returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation was refused or failed.
///
/// Unless a variant says otherwise nothing was enqueued. A value that was handed in and is not part of the error was
/// freed if that was safe, and leaked if not; `try_release`, `try_acquire` and their like give it back.
///
/// A message names our call, the driver's call, its code and what that means, and marks the codes that are
/// [sticky](Self::is_sticky):
///
/// ```text
/// Handoff::synchronize: cuEventSynchronize failed: CUDA_ERROR_LAUNCH_FAILED (719): a kernel trapped: …; the device is lost to this process
/// ```
///
/// CUDA reports a failed kernel at whichever call comes next, on any stream, so the call that is named is seldom the one to
/// blame; where it can, the message names the kernel.
///
/// # What is still usable
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no GPU that CUDA can use.
    #[error("no usable GPU: {0}; `Device::open_or_simulate` falls back to the simulated device")]
    NoGpu(#[source] DriverError),

    /// The process has already fallen back to a simulated device for this tag, which is never replaced.
    #[error("device `{tag}` is already simulated in this process, and a device is never replaced")]
    AlreadySimulated {
        /// The device tag.
        tag: String,
    },

    /// A device tag is already bound to another GPU.
    #[error("device `{tag}` is already bound to GPU {bound}, and cannot be bound to GPU {asked}")]
    AlreadyBound {
        /// The device tag.
        tag: &'static str,
        /// What it is bound to.
        bound: usize,
        /// What was asked for.
        asked: usize,
    },

    /// A driver call failed.
    #[error("{during}: {source}")]
    Driver {
        /// Our call.
        during: &'static str,
        /// The driver's error.
        source: DriverError,
    },

    /// The two sides of a copy have different lengths.
    #[error(
        "{during}: the source has {source_len} elements, the destination {destination_len}; pass ranges of equal length"
    )]
    LengthMismatch {
        /// Our call.
        during: &'static str,
        /// Elements of the source.
        source_len: usize,
        /// Elements of the destination.
        destination_len: usize,
    },

    /// A length in bytes that no allocation can have.
    #[error("{during}: {len} elements of {element_bytes} bytes are more than an address space holds")]
    TooLarge {
        /// Our call.
        during: &'static str,
        /// Elements asked for.
        len: usize,
        /// Bytes of one.
        element_bytes: usize,
    },

    /// A kernel could not be launched.
    #[error("launch of `{kernel}` ({file}:{line}): {source}")]
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
    #[error("grid: {0}")]
    Grid(GridError),

    /// The operating system has no memory to page-lock.
    #[error("mapping {bytes} bytes of host memory: {source}")]
    HostMemory {
        /// Bytes asked for.
        bytes: usize,
        /// The operating system's error.
        source: io::Error,
    },

    /// There is no thread that waits for handoffs on behalf of tasks, or that runs closures: it could not be started, or the process
    /// was forked after it was.
    #[error("the thread that waits for handoffs: {source}")]
    HostThread {
        /// The operating system's error.
        source: io::Error,
    },

    /// More pinned memory than [`Device::set_pinned_limit`](crate::Device::set_pinned_limit) allows.
    #[error(
        "page-locking {bytes} more bytes: {held_bytes} of {limit_bytes} allowed are held; drop pinned buffers, or raise the limit"
    )]
    PinnedLimit {
        /// Bytes asked for, rounded up to a size that the pool has.
        bytes: usize,
        /// Bytes that are page-locked, in use or with pending work.
        held_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },

    /// Pinned memory cannot move between a GPU and a simulated device.
    #[error(
        "pinned memory cannot move between a GPU and a simulated device: it is page-locked for one of them"
    )]
    OtherBackend,

    /// Two ranks of a communicator are one device.
    #[error("ranks {first} and {second} are one device: a communicator has each device once")]
    SameDevice {
        /// The first of the two.
        first: usize,
        /// The other.
        second: usize,
    },

    /// What a rank gives to a collective has another length than it must, by that of rank 0. Nothing was enqueued.
    #[error("{during}: rank {rank} {does} {len} elements, and must {expected}, by those of rank 0")]
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
    #[error("a simulated device cannot be the peer of a GPU: open another GPU with `Device::nth`")]
    NotSimulated,

    /// The device is being recorded already, and one recording at a time is.
    #[error("the timeline of this device is being recorded already: finish or drop that recording first")]
    AlreadyRecording,

    /// Two parts that do not lie side by side in one block cannot be joined.
    #[error("these are not neighbouring parts of one block, the second right after the first")]
    NotAdjacent,

    /// A graph cannot be updated to what the body does now: other work than what was captured, or what CUDA cannot change.
    #[error("{during}: operation {operation} of the body {why}; capture another graph for other work")]
    NotAnUpdate {
        /// Our call.
        during: &'static str,
        /// Which operation of the body, counted from 1: allocations, copies, fills, launches and foreign calls.
        operation: usize,
        /// What it was, and what it is.
        why: String,
    },

    /// A [`Slot`](crate::Slot) lost its bundle to an earlier error.
    #[error("the slot is empty: an earlier operation on it failed and its bundle was lost")]
    SlotEmpty,
}

impl Error {
    /// Whether the device is lost to this process: every later call fails too.
    pub fn is_sticky(&self) -> bool {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } | Self::NoGpu(source) => {
                source.is_sticky()
            }
            _ => false,
        }
    }

    /// The driver's error behind this one, if there is one.
    pub fn driver(&self) -> Option<&DriverError> {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } | Self::NoGpu(source) => Some(source),
            _ => None,
        }
    }
}

/// What of a grid does not fit CUDA's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// A block with no threads, or with more than a device can run.
    #[error("a block of {}x{}x{} threads; it needs 1 to 1024 in all, and at most 64 along z", .0[0], .0[1], .0[2])]
    Block([u32; 3]),
    /// More blocks than fit along one axis.
    #[error("{blocks} blocks along {axis}, of at most {limit}; use larger blocks or several launches")]
    Blocks {
        /// `'x'`, `'y'` or `'z'`.
        axis: char,
        /// Blocks needed.
        blocks: u64,
        /// The most there can be.
        limit: u64,
    },
    /// More threads in all than an index can number.
    #[error("{}x{}x{} threads are more than 2^63", .0[0], .0[1], .0[2])]
    Threads([u64; 3]),
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

/// An error, and the value that was handed in.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused<R> {
    /// Why.
    #[source]
    pub error: Error,
    /// What was handed in, as it was.
    pub value: R,
}

impl<R> From<Refused<R>> for Error {
    fn from(refused: Refused<R>) -> Self {
        refused.error
    }
}
