//! Memory: buffers and what is made of them, each in the file of its module.

mod buffer;
mod bundles;
mod constant;
mod derived;
mod foreign;
mod parts;
mod pinned_pool;
mod shared;
mod slice;
mod slot;
