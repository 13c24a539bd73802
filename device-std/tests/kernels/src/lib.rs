//! Kernels that use every function of `device-std`, all of them safe code. `tests/device_library`
//! compares each kernel with plain Rust.
//!
//! `ptx/library_kernels.ptx` is built from this source by `cargo xtask ptx`, and committed;
//! `cargo xtask ptx --check` says whether it is fresh.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

device_std::kernel_module!("../ptx/library_kernels.ptx");

pub mod atomic;
pub mod block;
pub mod endless;
pub mod generic;
pub mod math;
pub mod memory;
pub mod returned;
pub mod scan;
pub mod warp;
