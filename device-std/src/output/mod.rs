//! What a kernel writes through. Each type says which threads may touch which elements.

mod per_block;
mod per_thread;
mod per_thread_chunk;

pub use per_block::PerBlock;
pub use per_thread::{PerThread, PerThreadColumn};
pub use per_thread_chunk::PerThreadChunk;
