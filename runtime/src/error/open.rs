//! [`OpenError`]: the errors of opening a device.

use std::error::Error as StdError;
use std::fmt;

use super::Error;
use cuda_rt_driver::DriverError;

/// A device could not be opened. Nothing was opened, and the binding of the tag is unchanged.
///
/// Converts into [`Error`]: [`Driver`](Self::Driver) into [`Error::Driver`], the others into
/// [`Error::Open`].
///
/// ```
/// use cuda_rt::{Device, OpenError};
///
/// match Device::open() {
///     Ok(gpu) => println!("{}", gpu.properties().name),
///     Err(OpenError::NoGpu(why)) => println!("on the CPU: {why}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no GPU that CUDA can use.
    NoGpu(DriverError),

    /// The process has already fallen back to a simulated device for this tag, which is never
    /// replaced.
    AlreadySimulated {
        /// The device tag.
        tag: String,
    },

    /// A device tag is already bound to another GPU.
    AlreadyBound {
        /// The device tag.
        tag: &'static str,
        /// The ordinal of the GPU that the tag is bound to.
        bound: usize,
        /// The ordinal of the requested GPU.
        asked: usize,
    },

    /// A simulated device can be the peer of simulated devices only.
    NotSimulated,

    /// The GPU exists, but a driver call failed while the device was prepared.
    Driver {
        /// Our call.
        during: &'static str,
        /// The driver's error.
        source: DriverError,
    },
}

impl OpenError {
    /// The driver's error behind this one, if there is one.
    pub fn driver(&self) -> Option<&DriverError> {
        match self {
            Self::NoGpu(source) | Self::Driver { source, .. } => Some(source),
            Self::AlreadySimulated { .. } | Self::AlreadyBound { .. } | Self::NotSimulated => None,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGpu(source) => write!(
                f,
                "no usable GPU: {source}; `Device::open_or_simulate` falls back to the simulated device \
                 (`Device::open_or_simulate_gpu::<N>` for another GPU than the first)"
            ),
            Self::AlreadySimulated { tag } => write!(
                f,
                "device `{tag}` is already simulated in this process, and a device is never replaced"
            ),
            Self::AlreadyBound { tag, bound, asked } => write!(
                f,
                "device `{tag}` is already bound to GPU {bound}, and cannot be bound to GPU {asked}"
            ),
            Self::NotSimulated => f.write_str(
                "a simulated device cannot be the peer of a GPU: open another GPU with `Device::with_gpu`",
            ),
            Self::Driver { during, source } => write!(f, "{during}: {source}"),
        }
    }
}

impl StdError for OpenError {
    /// The source of the driver's error, whose own text is part of this error's text.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.driver().and_then(StdError::source)
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Driver { during, source } => Self::Driver { during, source },
            error => Self::Open(error),
        }
    }
}
