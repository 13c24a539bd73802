//! Kernels: the host's description of them, and the influence of the program around them.

mod attacks;
mod constant;
mod occupancy;
mod returned;
mod signature;
