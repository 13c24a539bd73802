//! Builds kernels to PTX, with rustc's own `nvptx64-nvidia-cuda` target.
//!
//! A build script builds kernels in a module of its package, or in a package of their own:
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
//! The PTX is then in `OUT_DIR`. The root of the crate with the kernels embeds it by
//! `device_std::kernel_module!(concat!(env!("OUT_DIR"), "/kernels.ptx"))`. In the repository,
//! `cargo xtask new` makes a program with such a crate.
//!
//! Only this step needs a nightly compiler and its sources: `rustup toolchain install nightly
//! --component rust-src`. A published package [commits](Kernels::committed) its PTX, so that its
//! users need neither.
//!
//! # Design choices
//!
//! - The PTX targets sm_80 in version 7.0. Every `ptxas` from CUDA 11.7 on accepts it for sm_80 and
//!   newer GPUs, and the driver compiles it for the GPU at run time. With [more
//!   architectures](Kernels::architecture), the text holds a module for each, and the runtime loads
//!   the module that fits the GPU best.
//! - The text does not depend on the place of the sources: paths are trimmed, and hashes of paths
//!   are renumbered. So it can be committed and compared. (With
//!   [`debug_info`](Kernels::debug_info), the text holds paths.)
//! - The build refuses a module without entries, and an entry without a layout table; the load of
//!   the module need not. It also refuses kernels if one of their crates has a mutable static. To
//!   find the statics, it compiles the crates again without optimisation. This takes some seconds
//!   in the first build, and little time later.
//! - The build refuses kernels if one of their crates enables a feature of nightly that is not on a
//!   short list. Some features, for example `custom_mir`, switch off checks of safe code. rustc
//!   checks this by `-Zallow-features`, which a small program adds: the build compiles it once, and
//!   cargo runs it in place of rustc. It passes no libraries, and no paths of libraries, on to
//!   crates for the GPU, which link nothing.
//! - The same program refuses code that is unsafe without the word `unsafe`, as editions before
//!   2024 have it: an attribute that names a symbol, and a foreign block. It lets rustc print each
//!   crate with its macros expanded, and looks for the words there. Write `#[unsafe(no_mangle)]`
//!   and `unsafe extern`. The words in a string, a block comment or the body of a macro count too.
//!   Assembly outside functions (`global_asm!`) is refused as well.
//! - No two crates define one symbol: LLVM has one value for each name. The build compares the LLVM
//!   modules of all crates, because a linker sees only some of them.
//! - The build [proves](verify) two properties of the PTX: threads meet at each barrier, and
//!   entries take the parameters that launches pass. The proof takes milliseconds, and cannot be
//!   switched off. Most refusals concern a barrier under a condition that differs by thread. The
//!   message shows the chain of values from the branch to the thread's index.
//! - The build refuses an entry that keeps an array in local memory, unless the build script
//!   [asks](Kernels::local_memory) for it. Local memory is device memory: loops over an array that
//!   were not unrolled made kernels up to 29 times slower, and nothing said so.
//! - A committed text holds a hash of its sources. Without the toolchain, the build uses the text
//!   for these sources only: for other sources, the kernels that run would differ from the kernels
//!   in the source.
#![forbid(unsafe_code)]

mod compilation;
mod compiled;
mod environment;
mod error;
mod features;
mod inspect;
mod kernels;
mod local_memory;
mod profile;
mod script;
mod shared_memory;
mod shim;
mod sources;
mod statics;
mod symbols;
mod text;
mod toolchain;
mod type_sizes;
pub mod verify;

pub use error::BuildError;
pub use kernels::{Kernels, Module};
