use device_std::prelude::*;

fn kernel(mut block: Block, counts: Atomic<u32>) {
    // SAFETY: the elements are memory of this GPU.
    let counts = unsafe { counts.system() };
    if counts.load(&block, 0) == 3 {
        block.threads(|_| ());
    }
}

fn main() {}
