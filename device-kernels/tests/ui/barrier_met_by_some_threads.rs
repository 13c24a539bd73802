use device_std::prelude::*;

fn kernel(mut block: Block) {
    block.threads(|thread| {
        if thread.index() == 3 {
            block.threads(|_| ());
        }
    });
}

fn main() {}
