//! cuBLAS for `cuda-handoff`, without unsafe code.
//!
//! A [`Blas`] belongs to one stream, by its type. Its calls take device memory of this stream, as
//! [`Matrix`] and [`MatrixMut`], and are enqueued there; memory comes and goes by handoffs, as for
//! all work of a stream. cuBLAS is found and loaded when the program runs. On simulated devices the
//! same calls run on the CPU, so programs and tests need no GPU.
//!
//! ```
//! use cuda_rt::Device;
//! use cuda_rt_cublas::{Blas, Matrix};
//!
//! cuda_rt::streams! { pub Compute; pub Download; }
//!
//! let gpu = Device::open_or_simulate()?;
//! let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
//! let a = compute.alloc_from_slice(&[1.0_f32, 2.0, 3.0, 4.0])?; // two rows of two
//! let b = compute.alloc_from_slice(&[0.0_f32, 1.0, 1.0, 0.0])?;
//!
//! let blas = Blas::new(&compute)?;
//! let c = blas.multiply(Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 2))?;
//!
//! let c = download.acquire(compute.release(c)?)?; // the download waits for the product
//! assert_eq!(download.copy_to_vec(&c)?, [2.0, 1.0, 4.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents
//!
//! - **products**: [`Blas::multiply`], [`Blas::gemm`], also of batches at equal distances
//!   ([`Matrix::batch`]); [`Blas::gemm_batched`] for lists; [`Blas::gemv`]
//! - **triangular systems**: [`Blas::trsm`]
//! - **vectors**: [`Blas::axpy`], [`Blas::scal`], [`Blas::dot`], [`Blas::nrm2`]
//! - **graphs**: [`Blas::captured`]
//!
//! # Design choices
//!
//! - Matrices are described as arrays of Rust are stored, row by row, unless the program says
//!   otherwise. This crate translates for cuBLAS, whose matrices are stored by columns.
//! - Shapes are compared with their memory before anything is enqueued. Outputs of a batch that
//!   overlap are refused: two products would write one element at the same time.
//! - The workspace is memory of the stream, and no other stream uses it. Handles are kept for the
//!   next [`Blas`] and never destroyed.
//!
//! # Who validates what
//!
//! rustc proves that memory belongs to the stream, and that an output is no input. This crate
//! checks lengths, leading dimensions, strides, and the sizes of numbers. cuBLAS is trusted to do
//! what its documentation says.
//!
//! # What is not caught
//!
//! Numbers: infinities, NaN and rounding are those of cuBLAS. Two runs may round differently, and
//! so do a GPU and the simulated device.
//!
//! # Adding it to a program
//!
//! With a checkout of the repository beside the program's package:
//!
//! ```toml
//! [dependencies]
//! cuda-rt = { package = "cuda-handoff", path = "../cuda-rt/cuda-rt" }
//! cuda-rt-cublas = { package = "cuda-handoff-cublas", path = "../cuda-rt/libraries/cublas" }
//! ```
//!
//! # Features
//!
//! - `simulator` (default): the calls on simulated devices, by the crate `matrixmultiply`
//! - `half`: matrices of `half::f16` and `half::bf16`

#![cfg_attr(docsrs, feature(doc_cfg))]

mod blas;
mod element;
mod error;
mod ffi;
mod handle;
mod matrix;
mod plan;
mod product;
#[cfg(feature = "simulator")]
mod simulated;
mod solve;
mod triangle;
mod vectors;

pub use blas::Blas;
pub use element::{Factor, Multiply, Precision, Real};
pub use error::{BlasError, Operand, Result, ShapeError, Status};
pub use matrix::{Layout, Matrix, MatrixMut};
pub use triangle::{Diagonal, Side, Triangle, Uplo};
