//! The names of this crate's calls in errors: [`During`] adds a name to a driver's error, and
//! [`Error::of_call`] replaces the name for a call that makes other calls of this crate.

use super::{Error, Result};
use crate::observability;
use cuda_rt_driver::{DriverError, DriverResult};

/// The error of a core that takes no more work.
#[derive(Clone, Debug)]
pub(crate) struct Unordered {
    pub(crate) cause: DriverError,
    /// Whether the core belongs to a capture. The core ends with the capture, and the device still
    /// takes work.
    pub(crate) graph: bool,
    /// Whether nobody was told of it before.
    pub(crate) first: bool,
}

/// Adds the name of this crate's call to a driver's error.
pub(crate) trait During<T> {
    fn during(self, call: &'static str) -> Result<T>;
}

impl<T> During<T> for DriverResult<T> {
    fn during(self, during: &'static str) -> Result<T> {
        self.map_err(|source| {
            observability::failed(during, &source);
            Error::Driver { during, source }
        })
    }
}

impl<T> During<T> for Result<T, Unordered> {
    fn during(self, during: &'static str) -> Result<T> {
        self.map_err(|Unordered { cause, graph, first }| {
            if first {
                observability::refused(during, &cause);
            }
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

impl Error {
    /// The same error, of the call `call`, which the program made, and not of a call inside it.
    pub(crate) fn of_call(mut self, call: &'static str) -> Self {
        let during = match &mut self {
            Self::Driver { during, .. }
            | Self::Unordered { during, .. }
            | Self::Aborted { during, .. }
            | Self::LengthMismatch { during, .. }
            | Self::Layout { during, .. }
            | Self::Dlpack { during, .. }
            | Self::TooLarge { during, .. }
            | Self::HostThread { during, .. }
            | Self::NotAdjacent { during }
            | Self::PartNotAdjacent { during, .. }
            | Self::Cast { during, .. }
            | Self::NotAnUpdate { during, .. }
            | Self::OtherStream { during, .. }
            | Self::OtherDevice { during, .. } => Some(during),
            Self::Pinned(error) => error.during_mut(),
            Self::Collective(error) => error.during_mut(),
            Self::Open(_)
            | Self::Launch { .. }
            | Self::Grid { .. }
            | Self::AlreadyRecording
            | Self::SlotEmpty
            | Self::Library(_)
            | Self::StreamInUse { .. } => None,
        };
        if let Some(during) = during {
            *during = call;
        }
        self
    }
}
