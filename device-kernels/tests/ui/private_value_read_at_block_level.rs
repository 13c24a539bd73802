use device_std::prelude::*;

fn kernel(mut block: Block) {
    let mine = block.map(|lane| lane.index() as u32);
    if mine.get() == 3 {
        block.threads(|_| ());
    }
}

fn main() {}
