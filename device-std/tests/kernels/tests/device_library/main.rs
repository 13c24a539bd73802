//! Compares every function of `device-std`, in a kernel of its own, with plain Rust. The kernels
//! run on the simulated device, and on every GPU of the machine.
//!
//! Integers, exchanges and reductions must be equal to the bit, on a GPU too. If floats may differ,
//! the test states the bound.
#![forbid(unsafe_code)]

mod atomic;
mod block;
#[path = "../../../../../cuda-rt/tests/devices/mod.rs"]
mod devices;
mod generic;
mod harness;
mod math;
mod memory;
mod returned;
mod scan;
mod sealed;
mod warp;

cuda_rt::streams! {
    Compute;
}
