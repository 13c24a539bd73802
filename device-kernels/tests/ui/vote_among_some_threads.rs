use device_std::prelude::*;

fn kernel(mut block: Block, input: &[u32]) {
    block.threads(|thread| {
        if input[thread.position()] > 3 {
            block.ballot(|lane| lane.index() > 16);
        }
    });
}

fn main() {}
