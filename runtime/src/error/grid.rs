//! [`GridError`]: grids that cannot be launched.

use std::error::Error as StdError;
use std::fmt;

use super::Error;

/// A grid exceeds CUDA's limits.
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
        /// The most blocks along that axis.
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

impl From<GridError> for Error {
    fn from(error: GridError) -> Self {
        Self::Grid(error)
    }
}
