// H32 (E0277): a value of one thread leaves its phase in a `Cell`, and decides about a barrier.
// Twin: h32_shared_memory_read_while_written
#![forbid(unsafe_code)]
use device_std::prelude::*;

device_std::kernel_module!("none.ptx");

#[kernel(block = 256)]
pub fn leak(mut block: Block, mut sums: PerBlock<f32>) {
    let kept = std::cell::Cell::new(0);
    block.threads(|t| kept.set(t.index()));
    sums.set(&block, kept.get() as f32);
}

fn main() {}
