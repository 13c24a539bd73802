use device_std::prelude::*;

fn kernel(mut block: Block, tile: BlockUninit<f32, 64>) {
    let tile = tile.view();
    block.threads(|thread| drop(tile.slice(thread)[0]));
}

fn main() {}
