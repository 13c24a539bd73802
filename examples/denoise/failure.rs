//! Errors of the example, as sentences for its user.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use thiserror::Error;

use crate::y4m;

/// A stage; a frame passes the five stages in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Reads from the file to page-locked memory.
    Read,
    /// Copies from the host to the GPU.
    Upload,
    /// Runs the filter on the GPU.
    Kernel,
    /// Copies from the GPU to the host.
    Download,
    /// Writes from page-locked memory to the file.
    Write,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Upload => "upload",
            Self::Kernel => "kernel",
            Self::Download => "download",
            Self::Write => "write",
        })
    }
}

impl Stage {
    /// Runs `work`, this stage's work on a frame, and adds stage and frame to its error.
    pub(super) fn of<T>(
        self,
        frame: u64,
        work: impl FnOnce() -> cuda_rt::Result<T>,
    ) -> Result<T, StageError> {
        work().at(self, frame)
    }
}

/// A stage's failure on a frame.
#[derive(Debug)]
pub struct StageError {
    /// The frame, counted from 0.
    pub frame: u64,
    /// The stage.
    pub stage: Stage,
    /// The cause.
    pub cause: Box<dyn StdError + Send + Sync>,
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause.downcast_ref::<y4m::Error>() {
            // This error's own text names the frame and the byte.
            Some(error) => write!(f, "{} failed: {error}", self.stage),
            None => write!(f, "{} failed: frame {}: {}", self.stage, self.frame, self.cause),
        }
    }
}

impl StdError for StageError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.cause)
    }
}

/// Adds the stage and the frame to an error.
pub(super) trait At<T> {
    fn at(self, stage: Stage, frame: u64) -> Result<T, StageError>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> At<T> for Result<T, E> {
    fn at(self, stage: Stage, frame: u64) -> Result<T, StageError> {
        self.map_err(|cause| StageError {
            frame,
            stage,
            cause: cause.into(),
        })
    }
}

/// The reason why there is no result.
#[derive(Debug, Error)]
pub enum Failure {
    /// Options that cannot be combined.
    #[error("{0}")]
    Usage(&'static str),
    /// The input can't be opened.
    #[error("{name}: {source}")]
    Open {
        /// The file's name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The input's first line can't be used.
    #[error("{name}: {source}")]
    Header {
        /// The file's name.
        name: String,
        /// Why, and where.
        source: y4m::Error,
    },
    /// The device does not exist, or it can't be used.
    #[error("{0}")]
    NoDevice(#[from] cuda_rt::OpenError),
    /// The device failed.
    #[error("{0}")]
    Device(#[from] cuda_rt::Error),
    /// A frame did not pass all stages.
    #[error("{name}: {source}")]
    Stage {
        /// The name of the file that the stage is nearer to: the input or the output.
        name: String,
        /// The stage, the frame and the cause.
        source: StageError,
    },
    /// The output can't be created, or can't get its name.
    #[error("{name}: {source}")]
    Output {
        /// The file's name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The terminal can't show the live view, or signals can't be handled.
    #[error("{0}")]
    Terminal(io::Error),
    /// The overlapped and the serial pass disagree. This would be a hazard that the types let pass.
    #[error("the overlapped result differs from the serial one, first in byte {offset}")]
    Differ {
        /// Byte offset in the output.
        offset: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_stage_and_the_frame() {
        let error = StageError {
            frame: 3,
            stage: Stage::Download,
            cause: "lost".into(),
        };
        assert_eq!(error.to_string(), "download failed: frame 3: lost");
    }
}
