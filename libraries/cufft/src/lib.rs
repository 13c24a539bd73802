//! cuFFT for `cuda-handoff`, without unsafe code.
//!
//! A [`Plan`] belongs to one stream, by its type, and transforms signals of one [`Shape`]. Its
//! calls take device memory of this stream, and are enqueued there; memory comes and goes by
//! handoffs, as for all work of a stream. cuFFT is found and loaded when the program runs. On
//! simulated devices the same calls run on the CPU, so programs and tests need no GPU.
//!
//! ```
//! use cuda_rt::Device;
//! use cuda_rt_cufft::{Complex, Plan, Shape};
//!
//! cuda_rt::streams! { pub Compute; pub Download; }
//!
//! let gpu = Device::open_or_simulate()?;
//! let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
//! let signal = compute.alloc_from_slice(&[1.0_f32, 0.0, -1.0, 0.0])?; // one period of a cosine
//! let mut spectrum = compute.alloc_zeroed::<Complex<f32>>(3)?; // 4 / 2 + 1 elements
//!
//! let plan = Plan::<f32, Complex<f32>, _>::new(&compute, Shape::line(4))?;
//! plan.forward(&signal, &mut spectrum)?;
//!
//! let spectrum = download.acquire(compute.release(spectrum)?)?; // the download waits
//! assert_eq!(download.copy_to_vec(&spectrum)?, [0.0, 2.0, 0.0].map(Complex::from));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents
//!
//! - **shapes**: [`Shape::line`], [`Shape::plane`], [`Shape::volume`], [`Shape::batch`]; memory
//!   with gaps: [`Placement`]
//! - **transforms**: [`Plan::forward`], [`Plan::inverse`], [`Plan::forward_in_place`],
//!   [`Plan::inverse_in_place`], of `f32` and `f64`; from and to real numbers, the plans
//!   `Plan<R, Complex<R>, S>` and `Plan<Complex<R>, R, S>`
//! - **graphs**: [`Plan::captured`]
//!
//! # Design choices
//!
//! - Elements are `num_complex::Complex`, under the name [`Complex`] here.
//! - Transforms are not normalised, as in cuFFT. [`Plan`] has an example that divides.
//! - Shapes are checked when a plan is made, and compared with the memory of each call before
//!   anything is enqueued. Outputs that overlap are refused: two transforms would write one element
//!   at the same time.
//! - A transform from complex to real numbers takes its input as `&mut`, because cuFFT destroys it.
//! - The work area is memory of the stream, and no other stream uses it. Handles are kept for the
//!   next [`Plan`] of the same shape and never destroyed.
//!
//! # Who validates what
//!
//! rustc proves that memory belongs to the stream, and that an output is no input. This crate
//! checks lengths, strides, distances and alignments, with overflow. cuFFT is trusted to do what
//! its documentation says.
//!
//! # What is not caught
//!
//! Numbers: infinities, NaN and rounding are those of cuFFT. Two versions may round differently,
//! and so do a GPU and the simulated device. Which lengths cuFFT refuses, only cuFFT says
//! (`CUFFT_INVALID_SIZE`); the simulated device takes each.
//!
//! # Adding it to a program
//!
//! With a checkout of the repository beside the program's package:
//!
//! ```toml
//! [dependencies]
//! cuda-rt = { package = "cuda-handoff", path = "../cuda-rt/cuda-rt" }
//! cuda-rt-cufft = { package = "cuda-handoff-cufft", path = "../cuda-rt/libraries/cufft" }
//! ```
//!
//! # Features
//!
//! - `simulator` (default): the calls on simulated devices, by the crate `rustfft`

#![cfg_attr(docsrs, feature(doc_cfg))]

mod element;
mod error;
mod ffi;
mod handle;
mod plan;
mod shape;
#[cfg(feature = "simulator")]
mod simulated;
mod transform;

pub use element::{Real, Transform};
pub use error::{FftError, Operand, Result, ShapeError, Status};
pub use num_complex::Complex;
pub use plan::Plan;
pub use shape::{Placement, Shape};
