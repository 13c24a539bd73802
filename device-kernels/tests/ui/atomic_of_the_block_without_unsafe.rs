use device_std::prelude::*;

fn kernel(i: Index1, counts: Atomic<u32>) {
    counts.block().fetch_add(&i, 0, 1);
}

fn main() {}
