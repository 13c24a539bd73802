use device_std::And;
use device_std::prelude::*;

fn kernel(mut block: Block, input: &[f32]) {
    let values = block.map(|lane| input[lane.position()]);
    block.warp_reduce::<And, _>(&values);
}

fn main() {}
