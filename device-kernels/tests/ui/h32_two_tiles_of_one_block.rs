use device_std::Sum;
use device_std::prelude::*;

fn kernel(mut block: Block, mut seen: BlockUninit<[u32; 3], 8>, look_back: LookBack<u64>) {
    // A block with two tiles would leave another block without one.
    look_back.scan::<Sum, u32, _, _, 8>(&mut block, &mut seen, |_, _| (1, ()));
    look_back.scan::<Sum, u32, _, _, 8>(&mut block, &mut seen, |_, _| (1, ()));
}

fn main() {}
