//! [`NvrtcError`]: CUDA C++ that could not be compiled.

use std::fmt;

use cuda_rt_driver::{DriverError, ErrorCode};

/// CUDA C++ that could not be compiled. [`Nvrtc`](super::Nvrtc) has an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NvrtcError {
    /// The library could not be loaded, is too old, or may not be called now.
    Library(DriverError),
    /// The source has errors.
    Compile {
        /// The name of the source.
        name: String,
        /// The log of the compiler, which names file and line.
        log: String,
    },
    /// A call of the library failed.
    Call {
        /// The call.
        call: &'static str,
        /// Its status (`nvrtcResult`).
        status: i32,
        /// What the library says of the status.
        text: String,
    },
    /// Safe code may not pass this flag.
    Flag {
        /// The flag.
        flag: String,
    },
    /// The number of a flag is out of its range, or has other characters than digits.
    FlagNumber {
        /// The flag.
        flag: String,
        /// The largest number. The smallest is 0.
        most: u32,
    },
    /// The source, the headers and the options have 2^24 bytes (16 MiB) or more together. NVRTC may
    /// crash on so much text.
    TooLarge {
        /// Their bytes.
        bytes: usize,
    },
    /// The name of the source or of a header begins with `-`, so NVRTC would read it as a flag.
    Name {
        /// The name.
        name: String,
    },
    /// A text holds a NUL, or a list is too long.
    Text {
        /// The text.
        what: &'static str,
    },
}

impl fmt::Display for NvrtcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A search for files, and no call of the driver.
            Self::Library(source) if source.code() == ErrorCode::OPERATING_SYSTEM => write!(
                f,
                "Nvrtc::load: {} (NVRTC comes with the CUDA toolkit, and alone by `pip install nvidia-cuda-nvrtc`, \
                 which puts it where no loader looks, into site-packages/nvidia/.../lib: start the program with \
                 `CUDA_RT_NVRTC=/full/path/libnvrtc.so.13`)",
                source.detail()
            ),
            Self::Library(source) => write!(
                f,
                "Nvrtc: {source} (NVRTC comes with the CUDA toolkit, and alone by `pip install nvidia-cuda-nvrtc`)"
            ),
            Self::Compile { name, log } => write!(f, "Nvrtc::compile: `{name}` has errors:\n{log}"),
            Self::Call { call, status, text } => write!(f, "Nvrtc::compile: {call}: {text} ({status})"),
            Self::Flag { flag } => write!(
                f,
                "Nvrtc::compile: `{flag}` is not on the list of flags that `NvrtcOptions::flag` passes, one in each \
                 call; `NvrtcOptions::flag_unchecked` passes any, and says what the caller promises"
            ),
            Self::FlagNumber { flag, most } => write!(
                f,
                "Nvrtc::compile: `{flag}` needs a number from 0 to {most} behind the `=`, of digits only; \
                 `NvrtcOptions::flag_unchecked` passes any, and says what the caller promises"
            ),
            Self::TooLarge { bytes } => write!(
                f,
                "Nvrtc::compile: the source, the headers and the options have {bytes} bytes together, and NVRTC may \
                 crash on {} or more: leave out what the source does not use",
                super::options::MAX_BYTES
            ),
            Self::Name { name } => write!(
                f,
                "Nvrtc::compile: the name `{name}` begins with `-`, so NVRTC would read it as a flag: choose another"
            ),
            Self::Text { what } => write!(f, "Nvrtc::compile: {what} holds a NUL, or is too long"),
        }
    }
}

impl std::error::Error for NvrtcError {}

impl From<DriverError> for NvrtcError {
    fn from(source: DriverError) -> Self {
        Self::Library(source)
    }
}

impl From<NvrtcError> for crate::Error {
    fn from(error: NvrtcError) -> Self {
        Self::Library(Box::new(error))
    }
}
