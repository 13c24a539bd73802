//! A safe CUDA runtime.
pub mod driver;
pub mod kernel;
