use device_std::prelude::*;

fn kernel(mut block: Block, output: PerThread<f32>) {
    let mut stash = None;
    block.threads(|thread| stash = thread.index_in_launch());
    block.threads(|_| output.set(stash.unwrap(), 1.0));
}

fn main() {}
