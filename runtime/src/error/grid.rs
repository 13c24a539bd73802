//! [`GridError`]: grids that cannot be launched.

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;

use super::Error;
use cuda_rt_driver::Kernel;

/// A grid that cannot be launched, or that does not cover the output of a kernel that returns its
/// element.
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
    /// A kernel returns fewer elements than its output has: the others would never be written
    /// ([H39](crate::hazards#h39)).
    Output {
        /// The threads or blocks of the launch.
        positions: u64,
        /// Whether `positions` counts blocks.
        of_blocks: bool,
        /// The elements that each of them returns.
        each: u64,
        /// The elements of the output.
        len: u64,
    },
}

impl GridError {
    /// The error of a launch of `kernel` with this grid.
    #[cold]
    #[track_caller]
    pub(crate) fn of(self, kernel: &Kernel) -> Error {
        Error::Grid {
            kernel: kernel.name,
            file: kernel.file,
            line: kernel.line,
            called_at: Location::caller(),
            why: self,
        }
    }
}

/// The place of a call, for messages.
pub(super) fn place(called_at: &Location<'_>) -> String {
    format!("{}:{}", called_at.file(), called_at.line())
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
            Self::Output {
                positions,
                of_blocks,
                each,
                len,
            } => {
                let what = if *of_blocks { "blocks" } else { "threads" };
                let (returned, needed) = (positions.saturating_mul(*each), len.div_ceil((*each).max(1)));
                write!(
                    f,
                    "{positions} {what} return {returned} elements, but the output has {len}; cover at least \
                     {needed} {what}, or pass {returned} elements of the output"
                )
            }
            Self::Threads([x, y, z]) => write!(f, "{x}x{y}x{z} threads are more than 2^63"),
        }
    }
}

impl StdError for GridError {}
