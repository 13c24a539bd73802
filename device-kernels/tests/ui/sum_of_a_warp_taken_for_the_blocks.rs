use device_std::Sum;
use device_std::prelude::*;

fn kernel(mut block: Block, input: &[u32]) {
    let values = block.map(|lane| input[lane.position()]);
    let sum: u32 = block.warp_reduce::<Sum, _>(&values);
    if sum > 3 {
        block.threads(|_| ());
    }
}

fn main() {}
