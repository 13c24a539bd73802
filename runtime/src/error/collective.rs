//! [`CollectiveError`]: devices or buffers of a collective that do not match.

use std::error::Error as StdError;
use std::fmt;

use super::Error;

/// The devices or buffers of a collective do not match. Nothing was enqueued, and the communicator
/// is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveError {
    /// Two ranks of a communicator are one device.
    SameDevice {
        /// The first of the two.
        first: usize,
        /// The other.
        second: usize,
    },

    /// The length of a rank's buffer does not match rank 0's buffer.
    RankLength {
        /// Our call.
        during: &'static str,
        /// The rank.
        rank: usize,
        /// `"sends"` or `"receives"`.
        does: &'static str,
        /// The elements of the rank's buffer.
        len: usize,
        /// The elements that rank 0's buffer requires.
        expected: usize,
    },

    /// A rank's buffer is a part of an allocation, or foreign memory, and shares a unit of 16 bytes
    /// with its neighbour. NCCL reads whole units, while another stream may write the neighbour.
    SharedUnit {
        /// Our call.
        during: &'static str,
        /// The rank.
        rank: usize,
        /// `"sends"` or `"receives"`.
        does: &'static str,
        /// The bytes from the last multiple of 16 to the buffer's start.
        start: usize,
        /// The bytes from the last multiple of 16 to the buffer's end.
        end: usize,
    },
}

impl CollectiveError {
    /// The name of our call, where the error holds it.
    pub(super) fn during_mut(&mut self) -> Option<&mut &'static str> {
        match self {
            Self::RankLength { during, .. } | Self::SharedUnit { during, .. } => Some(during),
            Self::SameDevice { .. } => None,
        }
    }
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameDevice { first, second } => write!(
                f,
                "Communicator::new: ranks {first} and {second} are one device: a communicator has each device once"
            ),
            Self::RankLength {
                during,
                rank,
                does,
                len,
                expected,
            } => write!(
                f,
                "{during}: rank {rank} {does} {len} elements, but rank 0's buffer requires {expected}"
            ),
            Self::SharedUnit {
                during,
                rank,
                does,
                start,
                end,
            } => write!(
                f,
                "{during}: rank {rank} {does} a part of an allocation that shares 16 bytes, which NCCL reads at once, with its \
                 neighbour: it begins {start} and ends {end} bytes behind a multiple of 16; split where a multiple of 16 bytes \
                 ends, or copy the part into an allocation of its own"
            ),
        }
    }
}

impl StdError for CollectiveError {}

impl From<CollectiveError> for Error {
    fn from(error: CollectiveError) -> Self {
        Self::Collective(error)
    }
}
