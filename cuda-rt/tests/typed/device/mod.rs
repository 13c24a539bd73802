//! The device: its pools, and its end.

mod attacks;
mod memory_pools;
