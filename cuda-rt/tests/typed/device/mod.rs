//! The device: its pools, and its end.

mod attacks;
mod everyday;
mod memory_pools;
