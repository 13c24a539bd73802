//! Builds a crate of kernels to PTX, with rustc's own `nvptx64-nvidia-cuda` target.
//!
//! In a build script, where the kernels are a crate of their own beside the package:
//!
//! ```no_run
//! // build.rs: in `main`
//! if let Err(error) = kernel_build::Kernels::new("kernels").build() {
//!     panic!("{error}");
//! }
//! ```
//!
//! The text is then in `OUT_DIR`, for `device_std::kernel_module!(concat!(env!("OUT_DIR"), "/kernels.ptx"))`.
//!
//! It needs a nightly compiler and its sources, for this one step: `rustup toolchain install nightly --component rust-src`. Crates that
//! are published commit their PTX instead, so that users need neither.
//!
//! # Design choices
//!
//! - The text targets sm_80 as PTX 7.0, which every `ptxas` from CUDA 11.7 on takes for every GPU since; the driver compiles it for the
//!   GPU at hand.
//! - The text is the same wherever the sources lie: what depends on paths is trimmed or renumbered, so that it can be committed
//!   and compared.
//! - A module without entries, with a mutable static, or with an entry whose layout table is missing is refused here, not when it is
//!   loaded.
#![forbid(unsafe_code)]

mod environment;
mod error;
mod inspect;
mod kernels;
mod text;
mod toolchain;

pub use error::BuildError;
pub use kernels::{Kernels, Module};
