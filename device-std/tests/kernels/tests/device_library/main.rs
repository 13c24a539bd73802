//! Every function of `device-std` in a kernel of its own, against plain Rust: on the simulated
//! device, and on every GPU there is.
//!
//! Integers, exchanges and reductions are compared bit for bit, on a GPU too. Where floats may
//! differ the test states by how much.
#![forbid(unsafe_code)]

mod atomic;
mod block;
#[path = "../../../../../cuda-rt/tests/devices/mod.rs"]
mod devices;
mod harness;
mod math;
mod memory;
mod sealed;
mod warp;

cuda_rt::streams! {
    Compute;
}
