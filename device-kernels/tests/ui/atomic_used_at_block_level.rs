use device_std::prelude::*;

fn kernel(mut block: Block, counts: Atomic<u32>) {
    if counts.fetch_add(&block, 0, 1) == 3 {
        block.threads(|_| ());
    }
}

fn main() {}
