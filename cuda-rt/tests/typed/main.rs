//! The typed API on simulated devices, in many adversarial orders, and on each GPU.
//!
//! Modules are named after the modules of `runtime/src`. The attacks on a module are in its
//! `attacks`. A single attack is beside the module's other tests.

#[path = "../block_on/mod.rs"]
mod block_on;
mod buffers;
#[path = "../devices/mod.rs"]
mod devices;
mod leftovers;
#[path = "../pairs/mod.rs"]
mod pairs;

mod attacks;
mod checker;
mod collective;
mod counts;
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
