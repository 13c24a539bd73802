//! The device: its pools, and its end.

mod any;
mod attacks;
mod everyday;
mod memory_pools;
mod metrics;
