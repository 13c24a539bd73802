//! What a kernel writes through. Each type says which threads may touch which elements.

mod atomic;
mod per_block;
mod per_thread;

pub use atomic::{Atomic, AtomicElement, AtomicInteger, ThreadToken};
pub(crate) use atomic::{fetch_add_at, fetch_max_at, fetch_min_at};
pub use per_block::PerBlock;
pub use per_thread::{PerThread, PerThreadColumn};
