//! Runs one program that uses the whole typed core, once for each driver call that it makes. In
//! each run that call fails, or unwinds instead of returning.
#![deny(unsafe_code)]

mod attacks;
#[path = "../block_on/mod.rs"]
mod block_on;
#[path = "../devices/cases.rs"]
mod cases;
#[allow(unsafe_code, reason = "`Driver` is an `unsafe` trait")]
#[allow(dead_code, reason = "`properties` uses the rest")]
mod driver;
mod errors;
mod meanwhile;
#[allow(unsafe_code, reason = "foreign kernels and streams")]
mod modules;
mod programs;
mod reading;
#[cfg(feature = "tracing")]
mod subscribers;
#[allow(unsafe_code, reason = "tensors go around by pointers")]
mod tensors;
mod unwinding;

// The kernel of `subscribers`, which runs on simulated devices only.
#[cfg(feature = "tracing")]
device_std::kernel_module!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/conformance/kernels.ptx"
));
