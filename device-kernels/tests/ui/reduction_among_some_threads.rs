use device_std::Sum;
use device_std::prelude::*;

fn kernel(mut block: Block, mut scratch: BlockUninit<u32, 8>, input: &[u32]) {
    let values = block.map(|lane| input[lane.position()]);
    block.threads(|thread| {
        if thread.index() < 32 {
            block.reduce::<Sum, _, 8>(&mut scratch, &values);
        }
    });
}

fn main() {}
