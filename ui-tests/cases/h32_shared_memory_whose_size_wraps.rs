// H32 (E0080): 2^61 elements of 8 bytes are 2^64 bytes, which a product of 64 bits takes for 0.
// Twin: h32_shared_memory_read_while_written
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel(block = 32)]
pub fn write_anywhere(mut block: Block, tile: BlockUninit<u64, { 1 << 61 }>, mut output: PerBlock<u64>) {
    let tile = tile.init(&mut block, |_, at| at as u64);
    let first = block.broadcast(&tile, 0);
    output.set(&block, first);
}

fn main() {}
