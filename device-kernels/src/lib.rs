//! Kernels shipped with cuda-rt, all of them safe code.
//!
//! - [`scale`], [`saxpy`]: one thread for each element
//! - [`add`], [`mul`]: a thread that returns its element, to memory that nothing wrote before
//! - [`scale4`], [`saxpy4`], [`add4`], [`process4`]: one thread for four elements, moved 16 bytes
//!   at once
//! - [`process`]: enough arithmetic to overlap with copies
//! - [`roots`]: few threads that run long, beside other kernels
//! - [`bilateral`]: a stencil over an image
//! - [`block_sum`]: shared memory and warp shuffles, in phases
//! - [`reduce`]: the sum, the smallest or the largest of all elements, in one launch
//! - [`histogram`]: atomics, in shared memory for each warp, and in device memory
//! - [`matmul`]: tiles in shared memory, and a sum that each thread keeps
//! - [`transpose`], [`transpose_wide`]: tiles in shared memory, so that reads and writes are both
//!   coalesced, and 16 bytes wide
//! - [`softmax`], [`layer_norm`]: rows that a warp or a block holds in registers
//! - [`inclusive_scan`], [`exclusive_scan`]: prefix sums (cumulative sums) and other running
//!   combinations of all elements, in one launch and one pass, by decoupled look-back
//!
//! `softmax`, `layer_norm` and the two scans choose their grid. They compare all lengths before
//! they launch anything, and return a [`LengthError`]. The other functions launch a kernel with the
//! caller's grid, and the kernel compares the lengths: where they do not fit, it traps, and the
//! device is lost to the process.
//!
//! `ptx/device_kernels.ptx` is built from this source by `cargo xtask ptx`, and committed, so that
//! users need no nightly compiler; `cargo xtask ptx --check` says whether it is fresh.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

device_std::kernel_module!("../ptx/device_kernels.ptx");

/// The PTX of these kernels, for programs that launch them by other means, such as raw driver
/// calls. An entry is named as its function, two underscores, and a hash of its signature. A slice
/// is two parameters: an address, and a length in elements (`u64`). An output that the function
/// returns is a slice behind its parameters. The last parameter is the number of threads, (x, y,
/// z), as three `u64`. Nothing checks launches by other means.
///
/// ```
/// assert!(device_kernels::ptx().contains(".visible .entry scale__"));
/// ```
#[cfg(not(target_arch = "nvptx64"))]
pub fn ptx() -> &'static str {
    __CUDA_RT_MODULE.ptx
}

mod bilateral;
mod elementwise;
mod histogram;
#[cfg(not(target_arch = "nvptx64"))]
mod length_error;
mod matmul;
mod reduce;
mod rows;
mod scan;
mod transpose;

pub use bilateral::bilateral;
pub use device_std::{LookBack, Max, Min, Sum};
pub use elementwise::{Scale, add, add4, mul, process, process4, roots, saxpy, saxpy4, scale, scale4};
pub use histogram::{Counted, histogram};
#[cfg(not(target_arch = "nvptx64"))]
pub use length_error::{LengthError, Mismatch};
pub use matmul::matmul;
pub use reduce::{BlockSum, block_sum, reduce};
#[cfg(not(target_arch = "nvptx64"))]
pub use rows::{layer_norm, softmax};
pub use rows::{layer_norm_held, layer_norm_long, softmax_held, softmax_long};
#[cfg(not(target_arch = "nvptx64"))]
pub use scan::{exclusive_scan, inclusive_scan, scan_words};
pub use scan::{exclusive_scan_tiles, inclusive_scan_tiles};
pub use transpose::{transpose, transpose_wide};
