use std::cell::Cell;

use device_std::prelude::*;

fn kernel(mut block: Block) {
    let seen = Cell::new(0);
    block.threads(|thread| seen.set(thread.index()));
    if seen.get() == 3 {
        block.threads(|_| ());
    }
}

fn main() {}
