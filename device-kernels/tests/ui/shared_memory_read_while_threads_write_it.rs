use device_std::prelude::*;

fn kernel(mut block: Block, tile: BlockUninit<f32, 64>) {
    let mut tile = tile.init(&mut block, |_, _| 0.0);
    let old = tile.view();
    let new = tile.each_mut();
    block.threads(|thread| new.set(thread, old.slice(thread)[(thread.index() + 1) % 64]));
}

fn main() {}
