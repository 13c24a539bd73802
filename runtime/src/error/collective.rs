//! What does not make a collective.

use std::error::Error as StdError;
use std::fmt;

use super::Error;

/// Devices or buffers that do not make a collective. Nothing was enqueued, and the communicator is
/// as before.
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

    /// What a rank gives to a collective has another length than it must, by that of rank 0.
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
                "{during}: rank {rank} {does} {len} elements, and must {expected}, by those of rank 0"
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
