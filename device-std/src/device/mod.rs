//! Instructions, registers and the panic handler of the GPU.

mod panic;
pub(crate) mod registers;
pub(crate) mod warp;
