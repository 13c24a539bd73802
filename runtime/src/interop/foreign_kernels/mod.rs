//! Kernels that cuda-rt did not build: declared with their types, loaded at run time, launched like
//! typed kernels.
//!
//! ```text
//!   foreign_kernel! { unsafe fn blur(..) as Blur; }      the promise, and the types
//!   ForeignModule::load(&gpu, bytes)                     image: recognised, places checked
//!     .stand_in::<Blur>(..)                              for simulated devices
//!     .get::<Blur>()                                     declaration compared with the entry
//!   blur.launch(&stream, grid, &input, &mut output, ..)  a launch in the order of the stream
//!   the drop of the last handle or graph                 unloaded behind all launches
//! ```
//!
//! A launch borrows its slices as typed kernels do, so only the promise of the declaration is
//! `unsafe`.

mod declaration;
mod error;
mod function;
mod grid;
mod image;
mod loaded;
mod module;
#[cfg(feature = "cuda")]
mod nvrtc;
mod parameters;

pub use declaration::ForeignKernel;
pub use error::ForeignError;
#[doc(hidden)]
pub use function::__length;
pub use function::ForeignFunction;
pub use grid::ForeignGrid;
pub use image::ImageError;
pub(crate) use loaded::LoadedModule;
pub use module::ForeignModule;
#[cfg(feature = "cuda")]
pub use nvrtc::{CppStandard, Nvrtc, NvrtcError, NvrtcOptions};
#[doc(hidden)]
pub use parameters::{Declared, ForeignParameter, ForeignParameters, Packed, Read, Value, Write};
