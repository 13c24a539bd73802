use device_std::prelude::*;

fn kernel(mut block: Block, tile: BlockUninit<f32, 64>) {
    let tile = tile.init(&mut block, |_, _| 0.0);
    let view = tile.view();
    let _sum = block.map(|lane| view.slice(lane)[0]);
}

fn main() {}
