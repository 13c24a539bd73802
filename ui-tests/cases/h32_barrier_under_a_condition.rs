// H32 (E0277): some threads of a block wait at a barrier that the others never reach.
// Twin: h32_shared_memory_read_while_written
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel(block = 256)]
pub fn odd(mut block: Block, mut sums: PerBlock<f32>) {
    block.threads(|t| {
        if t.index() % 2 == 1 {
            block.threads(|_| ());
        }
    });
    sums.set(&block, 1.0);
}

fn main() {}
