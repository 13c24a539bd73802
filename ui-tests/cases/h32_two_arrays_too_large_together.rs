// H32 (E0080): each array fits a block's shared memory, and both together do not.
// Twin: h32_shared_memory_read_while_written
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel(block = 32)]
pub fn blur(mut block: Block, tile: BlockUninit<f32, 32768>, halo: BlockUninit<f32, 27648>, mut output: PerBlock<f32>) {
    let tile = tile.init(&mut block, |_, at| at as f32);
    let halo = halo.init(&mut block, |_, at| at as f32);
    let first = block.broadcast(&tile, 0) + block.broadcast(&halo, 0);
    output.set(&block, first);
}

fn main() {}
