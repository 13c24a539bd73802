use std::sync::Mutex;

use device_std::prelude::*;

fn kernel(mut block: Block, output: PerThread<f32>) {
    let stash = Mutex::new(None);
    block.threads(|thread| *stash.lock().unwrap() = thread.index_in_launch());
    block.threads(|_| output.set(stash.lock().unwrap().unwrap(), 1.0));
}

fn main() {}
