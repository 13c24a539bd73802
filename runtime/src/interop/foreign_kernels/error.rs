//! [`ForeignError`]: a module that cannot be loaded, or a kernel that is not as it was declared.

use std::fmt;

use super::image::ImageError;
use crate::error::Error;

/// A module that cannot be loaded, or a kernel in it that is not as its declaration says.
///
/// It becomes an [`Error`] by `?`, as [`Error::Library`].
///
/// ```
/// use cuda_rt::interop::{ForeignError, ForeignModule, ImageError};
///
/// let gpu = cuda_rt::Device::open_or_simulate()?;
/// let error = ForeignModule::load(&gpu, b"no module").unwrap_err();
/// assert!(matches!(error, ForeignError::Image(ImageError::NotRecognised)));
/// assert!(error.to_string().contains("nvcc --ptx"));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ForeignError {
    /// The bytes are no module, or are damaged.
    Image(ImageError),
    /// The parameters of the entry cannot be read from the module.
    Unreadable(ImageError),
    /// The module has no entry of this name.
    NoEntry {
        /// The declared name.
        entry: &'static str,
        /// The names of the module's entries.
        has: Vec<String>,
    },
    /// The entry takes more or fewer parameters than its declaration has.
    Count {
        /// The entry.
        entry: &'static str,
        /// The number of declared parameters.
        declared: usize,
        /// The number in the module.
        found: usize,
        /// Both lists of parameters, as the message shows them.
        lists: String,
    },
    /// A parameter of the entry has another size than its declaration says.
    Parameter {
        /// The entry.
        entry: &'static str,
        /// The number of the parameter, from 0.
        index: usize,
        /// The declared name of the parameter.
        name: &'static str,
        /// What a launch passes for it.
        declared: &'static str,
        /// The declared size, in bytes.
        declared_bytes: usize,
        /// The size in the module, in bytes.
        found_bytes: usize,
        /// Both lists of parameters, as the message shows them.
        lists: String,
    },
    /// PTX states a float for a parameter that is declared as an integer or a slice, or an integer
    /// for a float.
    Type {
        /// The entry.
        entry: &'static str,
        /// The number of the parameter, from 0.
        index: usize,
        /// The declared name of the parameter.
        name: &'static str,
        /// What a launch passes for it.
        declared: &'static str,
        /// The type in the PTX, such as `.f32`.
        found: String,
        /// Both lists of parameters, as the message shows them.
        lists: String,
    },
    /// The driver refused the module. The error holds the log of its compiler.
    Runtime(Error),
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(error) => write!(f, "ForeignModule::load: {error}"),
            Self::Unreadable(error) => write!(f, "ForeignModule::get: {error}"),
            Self::NoEntry { entry, has } => {
                write!(
                    f,
                    "ForeignModule::get: the module has no entry `{entry}`; it has "
                )?;
                match &has[..] {
                    [] => f.write_str("none")?,
                    names => write!(f, "`{}`", names.join("`, `"))?,
                }
                f.write_str(" (C++ changes names, except behind `extern \"C\"`)")
            }
            Self::Count {
                entry,
                declared,
                found,
                lists,
            } => write!(
                f,
                "ForeignModule::get: `{entry}` is declared with {declared} parameters, and takes {found} in the \
                 module: {lists} (a slice is one parameter, a pointer; declare a length where the kernel takes one)"
            ),
            Self::Parameter {
                entry,
                index,
                name,
                declared,
                declared_bytes,
                found_bytes,
                lists,
            } => write!(
                f,
                "ForeignModule::get: parameter {index} (`{name}`) of `{entry}` is declared as {declared} of \
                 {declared_bytes} bytes, and has {found_bytes} bytes in the module: {lists}"
            ),
            Self::Type {
                entry,
                index,
                name,
                declared,
                found,
                lists,
            } => write!(
                f,
                "ForeignModule::get: parameter {index} (`{name}`) of `{entry}` is declared as {declared}, and the PTX \
                 says `{found}`: {lists}"
            ),
            Self::Runtime(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ForeignError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Runtime(error) => error.source(),
            _ => None,
        }
    }
}

impl From<ImageError> for ForeignError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

impl From<Error> for ForeignError {
    fn from(error: Error) -> Self {
        Self::Runtime(error)
    }
}

impl From<ForeignError> for Error {
    fn from(error: ForeignError) -> Self {
        match error {
            ForeignError::Runtime(error) => error,
            other => Self::Library(Box::new(other)),
        }
    }
}
