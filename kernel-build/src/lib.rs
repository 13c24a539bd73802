//! Builds kernels to PTX, with rustc's own `nvptx64-nvidia-cuda` target.
//!
//! In a build script, for kernels in a module of the package, or in a package of their own whose
//! script it is:
//!
//! ```no_run
//! // build.rs
//! fn main() -> std::process::ExitCode {
//!     kernel_build::Kernels::module("src/kernels.rs") // or `Kernels::new(".")`
//!         .committed("kernels.ptx")
//!         .build_script()
//! }
//! ```
//!
//! The text is then in `OUT_DIR`, for `device_std::kernel_module!(concat!(env!("OUT_DIR"),
//! "/kernels.ptx"))` in the root of the crate that has the kernels. `examples/own-kernels` is a
//! program to copy.
//!
//! It needs a nightly compiler and its sources, for this one step: `rustup toolchain install
//! nightly --component rust-src`. Packages that are published [commit](Kernels::committed) their
//! PTX, so that users need neither.
//!
//! # Design choices
//!
//! - The text targets sm_80 as PTX 7.0, which every `ptxas` from CUDA 11.7 on takes for every GPU
//!   since; the driver compiles it for the GPU at hand. With [more
//!   architectures](Kernels::architecture) it holds a module for each, and the runtime loads the
//!   one that fits best.
//! - The text is the same wherever the sources lie: what depends on paths is trimmed or renumbered,
//!   so that it can be committed and compared. (Not with [`debug_info`](Kernels::debug_info), which
//!   is there to tell the paths.)
//! - A module without entries, or with an entry whose layout table is missing, is refused here, not
//!   when it is loaded. So are kernels in whose crates there is a mutable static. For that the
//!   crates are checked once more, unoptimised: some seconds for the first build, and little for
//!   later ones.
//! - The PTX is [proved](verify): that threads meet at each barrier, and that entries take what
//!   launches pass. That takes milliseconds, and there is no way around it. Most refusals are of
//!   barriers under a condition that differs by thread; the message has the chain of values from
//!   the branch to the thread's index.
//! - A committed text names its sources by a hash. Where the toolchain is missing it stands in for
//!   those sources only: with others, the kernels that run would not be those that are read.
#![forbid(unsafe_code)]

mod environment;
mod error;
mod inspect;
mod kernels;
mod profile;
mod script;
mod shim;
mod sources;
mod statics;
mod text;
mod toolchain;
pub mod verify;

pub use error::BuildError;
pub use kernels::{Kernels, Module};
