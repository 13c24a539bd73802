//! Memory: buffers and the types built from them. Each file tests the module of its name.

mod buffer;
mod bundles;
mod cast;
mod constant;
mod derived;
mod device_pool;
mod foreign;
mod kept;
mod managed;
mod many_parts;
mod metadata;
mod parts;
mod peek;
mod pinned;
mod pinned_pool;
mod shared;
mod slice;
mod slot;
mod write_combined;
