use device_std::prelude::*;

fn kernel(
    mut block: Block,
    output: PerTile<u32, 1, 1>,
) {
    // A number is no tile.
    block.threads(|thread| output.set(&0, thread, [[1]]));
}

fn main() {}
