use device_std::prelude::*;

fn kernel(mut block: Block, counts: BlockUninit<u32, 8>) {
    let mut counts = counts.init(&mut block, |_, _| 0);
    if counts.atomic().fetch_add(&block, 0, 1) == 3 {
        block.threads(|_| ());
    }
}

fn main() {}
