//! Outputs of kernels. The type of an output says which threads may use which elements.

mod per_block;
mod per_row;
mod per_thread;
mod per_thread_chunk;
mod per_thread_tile;
mod per_tile;
pub(crate) mod whole;

pub use per_block::PerBlock;
pub use per_row::{PerRow, RowPlace, Rows};
pub use per_thread::{PerThread, PerThreadColumn};
pub use per_thread_chunk::PerThreadChunk;
pub use per_thread_tile::{PerThreadTile, TilePlace};
pub use per_tile::PerTile;
