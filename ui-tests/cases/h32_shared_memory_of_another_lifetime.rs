// H32 (E0803): what the kernel calls `BlockUninit` outlives the block, so a kernel can keep its
// shared memory.
// Twin: h32_shared_memory_read_while_written
#![forbid(unsafe_code)]
use device_std::prelude::{Block, PerBlock, kernel};

device_std::kernel_module!("none.ptx");

type BlockUninit<'k, T, const N: usize> = device_std::BlockUninit<'static, T, N>;

#[kernel(block = 32)]
pub fn keep(mut block: Block, tile: BlockUninit<u32, 32>, mut output: PerBlock<u32>) {
    let tile = tile.init(&mut block, |_, at| at as u32);
    let first = block.broadcast(&tile, 0);
    output.set(&block, first);
}

fn main() {}
