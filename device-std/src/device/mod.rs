//! What only the GPU has.

mod panic;
pub(crate) mod registers;
pub(crate) mod warp;
