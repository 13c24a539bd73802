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
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
                "{during}: rank {rank} {does} {len} elements, but rank 0's buffer requires {expected}"
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
