//! [`PinnedError`]: the errors of pinned memory.

use std::error::Error as StdError;
use std::{fmt, io};

use super::Error;

/// Pinned memory could not be allocated, or cannot be used on this device. The pool and its earlier
/// buffers are unchanged.
///
/// ```
/// use cuda_rt::{Error, PinnedError};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// gpu.set_pinned_limit(Some(4096));
/// let small = gpu.pinned::<u8>(4096)?;
/// match gpu.pinned::<u8>(1 << 20) {
///     Err(Error::Pinned(PinnedError::Limit { limit_bytes, .. })) => {
///         println!("{limit_bytes} bytes are all there is");
///     }
///     other => drop(other?),
/// }
/// # gpu.set_pinned_limit(None);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PinnedError {
    /// A length in bytes that no allocation can have.
    TooLarge {
        /// Elements asked for.
        len: usize,
        /// Bytes of one.
        element_bytes: usize,
    },

    /// More than [`Device::set_pinned_limit`](crate::Device::set_pinned_limit) allows. Dropping
    /// pinned buffers whose work is over makes room.
    Limit {
        /// Bytes asked for, rounded up to a size of the pool's blocks.
        bytes: usize,
        /// Bytes that are page-locked, in use or with pending work.
        held_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },

    /// The operating system has no memory to page-lock.
    HostMemory {
        /// Bytes asked for.
        bytes: usize,
        /// The operating system's error.
        source: io::Error,
    },

    /// Pinned memory cannot move between a GPU and a simulated device.
    OtherBackend,
}

impl fmt::Display for PinnedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { len, element_bytes } => write!(
                f,
                "Device::pinned: {len} elements of {element_bytes} bytes are more than an address space holds"
            ),
            Self::Limit {
                bytes,
                held_bytes,
                limit_bytes,
            } => write!(
                f,
                "page-locking {bytes} more bytes: {held_bytes} of {limit_bytes} allowed are held; drop pinned buffers, or raise the limit"
            ),
            Self::HostMemory { bytes, source } => write!(f, "mapping {bytes} bytes of host memory: {source}"),
            Self::OtherBackend => f.write_str(
                "pinned memory cannot move between a GPU and a simulated device: it is page-locked for one of them",
            ),
        }
    }
}

impl StdError for PinnedError {
    /// The source of the system's error, whose own text is part of this error's text.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::HostMemory { source, .. } => source.source(),
            Self::TooLarge { .. } | Self::Limit { .. } | Self::OtherBackend => None,
        }
    }
}

impl From<PinnedError> for Error {
    fn from(error: PinnedError) -> Self {
        Self::Pinned(error)
    }
}
