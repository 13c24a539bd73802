use device_std::prelude::*;

fn kernel(mut block: Block, input: &[u32]) {
    if block.warp_any(|lane| input[lane.position()] > 3) {
        block.threads(|_| ());
    }
}

fn main() {}
