use device_std::prelude::*;
use device_std::{LookBack, Sum};

fn kernel(mut block: Block, mut seen: BlockUninit<[u32; 3], 8>, look_back: LookBack<u64>) {
    block.threads(|thread| {
        if thread.index() < 32 {
            look_back.scan::<Sum, u32, _, _, 8>(&mut block, &mut seen, |_, _| (1, ()));
        }
    });
}

fn main() {}
