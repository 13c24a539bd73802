use device_std::Sum;
use device_std::prelude::*;

fn kernel(mut block: Block, mut scratch: BlockUninit<u32, 8>, input: &[u32]) {
    let values = block.map(|lane| input[lane.position()]);
    block.reduce::<Sum, _, 8>(&mut scratch, &values);
    let view = scratch.view();
    block.threads(|thread| assert!(view.slice(thread)[0] > 0));
}

fn main() {}
