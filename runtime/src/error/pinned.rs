//! [`PinnedError`]: the errors of pinned memory.

use std::error::Error as StdError;
use std::{fmt, io};

use super::Error;

/// Pinned memory could not be allocated, or cannot be used on this device. The pool and its earlier
/// buffers are unchanged.
///
/// If CUDA refuses to page-lock memory (`cuMemHostRegister`), the error is
/// [`Error::Driver`](crate::Error::Driver), usually with `CUDA_ERROR_OUT_OF_MEMORY`: the limit of
/// page-locked memory is the system's. [`Error::is_out_of_memory`](crate::Error::is_out_of_memory)
/// is true for it, and for [`Limit`](Self::Limit) and [`HostMemory`](Self::HostMemory).
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
        /// Our call.
        during: &'static str,
        /// Elements asked for.
        len: usize,
        /// Bytes of one.
        element_bytes: usize,
    },

    /// More than [`Device::set_pinned_limit`](crate::Device::set_pinned_limit) allows. Dropping
    /// pinned buffers whose work is over makes room.
    Limit {
        /// Our call.
        during: &'static str,
        /// Bytes asked for, rounded up to a size of the pool's blocks.
        bytes: usize,
        /// Bytes that are page-locked, in use or with pending work.
        held_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },

    /// The operating system has no memory to page-lock.
    HostMemory {
        /// Our call.
        during: &'static str,
        /// Bytes asked for.
        bytes: usize,
        /// The operating system's error.
        source: io::Error,
    },

    /// Pinned memory cannot move between a GPU and a simulated device
    /// ([`PinnedBuffer::for_device`](crate::PinnedBuffer::for_device)). A machine without a GPU
    /// cannot cause this error.
    OtherBackend,

    /// The memory is that of the process that forked this one, and stays there
    /// ([`PinnedBuffer::for_device`](crate::PinnedBuffer::for_device)). Only a child of `fork` can
    /// cause this error.
    OtherProcess,
}

impl PinnedError {
    /// The name of our call, where the error holds it.
    pub(super) fn during_mut(&mut self) -> Option<&mut &'static str> {
        match self {
            Self::TooLarge { during, .. } | Self::Limit { during, .. } | Self::HostMemory { during, .. } => {
                Some(during)
            }
            Self::OtherBackend | Self::OtherProcess => None,
        }
    }
}

impl fmt::Display for PinnedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge {
                during,
                len,
                element_bytes,
            } => write!(
                f,
                "{during}: {len} elements of {element_bytes} bytes are more than an address space holds"
            ),
            Self::Limit {
                during,
                bytes,
                held_bytes,
                limit_bytes,
            } => write!(
                f,
                "{during}: page-locking {bytes} more bytes: {held_bytes} of {limit_bytes} allowed are held; drop pinned buffers, or raise the limit"
            ),
            Self::HostMemory {
                during,
                bytes,
                source,
            } => write!(f, "{during}: mapping {bytes} bytes of host memory: {source}"),
            Self::OtherBackend => f.write_str(
                "PinnedBuffer::for_device: pinned memory cannot move between a GPU and a simulated device: it is page-locked for one of them",
            ),
            Self::OtherProcess => f.write_str(
                "PinnedBuffer::for_device: the memory belongs to the process that forked this one, and stays there: take pinned memory of the child's own device",
            ),
        }
    }
}

impl StdError for PinnedError {
    /// The source of the system's error, whose own text is part of this error's text.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::HostMemory { source, .. } => source.source(),
            Self::TooLarge { .. } | Self::Limit { .. } | Self::OtherBackend | Self::OtherProcess => None,
        }
    }
}

impl From<PinnedError> for Error {
    fn from(error: PinnedError) -> Self {
        Self::Pinned(error)
    }
}
