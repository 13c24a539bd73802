//! The typed API on simulated devices, in many adversarial orders, and on each GPU there is.
//!
//! Modules are named after those of `runtime/src`. The attacks on a module are in its `attacks`,
//! or, where there is one only, beside its other tests.

mod buffers;
#[path = "../devices/mod.rs"]
mod devices;
mod leftovers;
#[path = "../pairs/mod.rs"]
mod pairs;

mod attacks;
mod checker;
mod collective;
mod device;
mod error;
mod graph;
mod interop;
mod kernel;
mod memory;
mod order;
mod stream;
mod tag;

// The simulated device reads no PTX.
device_std::kernel_module!("../conformance/kernels.ptx");
