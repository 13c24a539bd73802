use std::io;
use std::path::PathBuf;

use crate::verify::Refusal;

/// Why a crate of kernels was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no rustup.
    #[error(
        "kernels are built by a nightly compiler, which is found through rustup: install it from https://rustup.rs, \
         then run `rustup toolchain install nightly --component rust-src`"
    )]
    NoRustup(#[source] io::Error),
    /// The toolchain is not installed.
    #[error(
        "the toolchain `{toolchain}` is not installed: run `rustup toolchain install {toolchain} --component rust-src`"
    )]
    NoToolchain {
        /// Its name.
        toolchain: String,
    },
    /// The toolchain has no sources of `core`, which is built for the GPU along with the kernels.
    #[error(
        "the toolchain `{toolchain}` lacks the sources of `core`: run `rustup component add rust-src --toolchain {toolchain}`"
    )]
    NoRustSrc {
        /// Its name.
        toolchain: String,
    },
    /// There is no package with a library at this path.
    #[error("`{}` is not a package with a library: {reason}", path.display())]
    NotAKernelCrate {
        /// The path that was given.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The package of a [module](crate::Kernels::module) does not depend on `device-std`.
    #[error("`{}` does not depend on `device-std`, which kernels are written against", path.display())]
    NoDeviceStd {
        /// The package.
        path: PathBuf,
    },
    /// The committed PTX was built from other sources, and the toolchain that would build it anew
    /// is missing.
    #[error("{} was not built from the kernels as they are now, and can't be built here: {missing}", path.display())]
    Stale {
        /// The committed file.
        path: PathBuf,
        /// What is missing.
        missing: Box<BuildError>,
    },
    /// The compiler does not build for this architecture.
    #[error("the compiler does not build for `{asked}`, but for {known}")]
    Architecture {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// Architectures differ in their entries: something in the sources depends on the architecture.
    #[error("for {architecture} there are other kernels than for the architectures before: {}", entries.join(", "))]
    OtherEntries {
        /// The architecture.
        architecture: String,
        /// Its entries.
        entries: Vec<String>,
    },
    /// The crate does not compile for the GPU.
    #[error("the kernels do not compile for the GPU (H33):\n{diagnostics}")]
    Compile {
        /// What the compiler said.
        diagnostics: String,
    },
    /// The module has no entries.
    #[error(
        "`{package}` has no kernels: mark functions with `#[kernel]`, and name the crate that has them in its library's root"
    )]
    NoEntries {
        /// The package.
        package: String,
    },
    /// A crate of the kernels has a static that could change. Block-level code could see through it
    /// what other threads did, and threads would part at a barrier; and its contents would outlive
    /// a launch.
    #[error("kernels must not share a mutable static: use an `Atomic` parameter instead of {}", names.join(", "))]
    MutableStatic {
        /// Its path, or theirs.
        names: Vec<String>,
    },
    /// A kernel has a remainder of floats, which a GPU does not compute exactly: by a division,
    /// which is rounded.
    #[error(
        "`%` of floats is not exact on a GPU, where 1e8 % 3 is -2: call `device_std::accurate::rem` or `rem_euclid` instead in {}",
        kernels.join(", ")
    )]
    InexactRemainder {
        /// The kernels, or functions that are part of one.
        kernels: Vec<String>,
    },
    /// The PTX has something that kernels may not have, or cannot be proved to lack it: the
    /// compiler made of the sources what their types do not allow.
    #[error("the PTX of the kernels is refused: {0}")]
    Refused(#[from] Refusal),
    /// An entry lacks its layout table.
    #[error("the entry `{entry}` has no layout table: was it made by another version of `#[kernel]`?")]
    NoLayoutTable {
        /// The entry.
        entry: String,
    },
    /// [`build`](crate::Kernels::build) was called outside a build script.
    #[error("OUT_DIR is not set: outside a build script, use `Kernels::compile` with a target directory")]
    NoOutDir,
    /// A file could not be read or written.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: io::Error,
    },
}

impl BuildError {
    pub(crate) fn not_a_crate(path: impl Into<PathBuf>, reason: String) -> Self {
        Self::NotAKernelCrate {
            path: path.into(),
            reason,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |reason| Self::Io { path, reason }
    }
}
